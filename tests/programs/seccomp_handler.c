// A filter traps a system call, and the handler of SIGSYS answers in its place: in main, in a thread, in a child, in the program that is executed.
// build: -O2 -pthread | -O0 -static -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static volatile int traps, right; extern char after_call[];
static void handler(int s, siginfo_t *i, void *c) { ucontext_t *u = c; traps++;
  right += s == SIGSYS && i->si_code == 1 && i->si_syscall == SYS_getppid && i->si_arch == AUDIT_ARCH_X86_64 && (long)i->si_call_addr == u->uc_mcontext.gregs[REG_RIP] && u->uc_mcontext.gregs[REG_RAX] == SYS_getppid;
  right += (char *)i->si_call_addr == after_call; u->uc_mcontext.gregs[REG_RAX] = 4000 + i->si_errno; }
static __attribute__((noinline, noclone)) long call(void) { long r; asm volatile(".globl after_call\nsyscall\nafter_call:" : "=a"(r) : "a"(SYS_getppid), "b"(7L) : "rcx", "r11", "memory"); return r; }
static void *thread(void *p) { return (void *)(call() + (long)p); }
int main(int n, char **v) {
  struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER}; sigaction(SIGSYS, &a, NULL); setvbuf(stdout, NULL, _IONBF, 0);
  if (n > 1) { printf("executed: %ld\n", call()); printf("%d %d\n", traps, right); errno = 0; int r = chroot("/"); printf("%d %d\n", r, errno); return 3; }
  struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 42),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_chroot, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
  struct sock_fprog p = {sizeof f / sizeof *f, f}; long self = getpid();
  printf("%d\n", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); pthread_t before, after; pthread_create(&before, NULL, thread, (void *)-self); void *r; pthread_join(before, &r);
  printf("before: %d\n", traps); printf("%ld\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p));
  for (int i = 0; i < 1000; i++) if (call() != 4042) return 2;
  printf("%d %d\n", traps, right); pthread_create(&after, NULL, thread, (void *)1L); pthread_join(after, &r); printf("thread: %ld, %d %d\n", (long)r, traps, right);
  pid_t c = fork(); if (!c) { printf("child: %ld, %d %d\n", call(), traps, right); execl("/proc/self/exe", v[0], "again", (char *)0); _exit(9); }
  int st; waitpid(c, &st, 0); printf("%d\n", st >> 8); return right == 2 * traps ? 5 : 6; }
