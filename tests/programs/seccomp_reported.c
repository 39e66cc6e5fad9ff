// A filter has calls reported to a handler of SIGSYS (SECCOMP_RET_TRAP), which answers them as a broker does: each kind of call that Trommel makes in the program's name, and one that it does not see; with all registers as at the call, on an alternate stack, nested, in threads, children and with signals that come meanwhile.
// build: -O2 -pthread | -O0 -static -pthread
// run: calls
// run: nested
// run: threads
// run: starts
// run: timer
// run: blocked
// run: ignored
// run: default
// run: errno
// run: log
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define IS(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define RET(k) BPF_STMT(BPF_RET | BPF_K, k)
#define ARG(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#define MARK 0x7a51
static void filter(const int *calls, int count, unsigned action) {
  static struct sock_filter f[256]; int n = 0;
  f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count; i++) { f[n++] = (struct sock_filter)IS(calls[i], 0, 1); f[n++] = (struct sock_filter)RET(action); }
  f[n++] = (struct sock_filter)RET(SECCOMP_RET_ALLOW);
  struct sock_fprog p = {n, f}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p)) { perror("filter"); exit(1); }
}
// Only calls that are marked: by the sixth argument, and by one that no call of Trommel's has so.
static int known(int number) {
  switch (number) { case SYS_mmap: case SYS_mremap: return 3; case SYS_mprotect: case SYS_madvise: case SYS_openat: return 2; case SYS_futex: case SYS_ioctl: case SYS_memfd_create: case SYS_fcntl: return 1; case SYS_prctl: case SYS_arch_prctl: case SYS_brk: return 0; default: return 5; }
}
static unsigned value(int argument) { return argument == 3 ? 0x110 : argument == 2 ? 0x1d : argument == 1 ? 0x15 : argument == 0 ? -0x1d1 : MARK; }
static void marked(const int *calls, int count, unsigned action) {
  static struct sock_filter f[512]; int n = 0;
  f[n++] = (struct sock_filter)LOAD(ARG(5)); f[n++] = (struct sock_filter)IS(MARK, 1, 0); f[n++] = (struct sock_filter)RET(SECCOMP_RET_ALLOW);
  f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count; i++) { int k = known(calls[i]); f[n++] = (struct sock_filter)IS(calls[i], 0, 4); f[n++] = (struct sock_filter)LOAD(ARG(k)); f[n++] = (struct sock_filter)IS(value(k), 0, 1); f[n++] = (struct sock_filter)RET(action); f[n++] = (struct sock_filter)RET(SECCOMP_RET_ALLOW); }
  f[n++] = (struct sock_filter)RET(SECCOMP_RET_ALLOW);
  struct sock_fprog p = {n, f}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p)) { perror("filter"); exit(1); }
}
// A call with known values in all registers, and what they are afterwards.
struct regs { long rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15; };
extern char after_call[];
__attribute__((noinline, noclone)) static void call(struct regs *r) {
  static __thread struct regs *at; at = r;
  register struct regs *p asm("rax") = r;
  asm volatile("push %%rbp\n push %%rbx\n push %%rax\n"
    "mov 8(%%rax), %%rbx\n mov 24(%%rax), %%rdx\n mov 32(%%rax), %%rsi\n mov 40(%%rax), %%rdi\n mov 48(%%rax), %%rbp\n mov 56(%%rax), %%r8\n mov 64(%%rax), %%r9\n mov 72(%%rax), %%r10\n"
    "mov 88(%%rax), %%r12\n mov 96(%%rax), %%r13\n mov 104(%%rax), %%r14\n mov 112(%%rax), %%r15\n mov 0(%%rax), %%rax\n"
    ".globl after_call\n syscall\nafter_call:\n"
    "xchg %%rax, (%%rsp)\n mov %%rbx, 8(%%rax)\n mov %%rcx, 16(%%rax)\n mov %%rdx, 24(%%rax)\n mov %%rsi, 32(%%rax)\n mov %%rdi, 40(%%rax)\n mov %%rbp, 48(%%rax)\n mov %%r8, 56(%%rax)\n mov %%r9, 64(%%rax)\n mov %%r10, 72(%%rax)\n mov %%r11, 80(%%rax)\n"
    "mov %%r12, 88(%%rax)\n mov %%r13, 96(%%rax)\n mov %%r14, 104(%%rax)\n mov %%r15, 112(%%rax)\n pop %%rbx\n mov %%rbx, (%%rax)\n pop %%rbx\n pop %%rbp\n xor %%r9d, %%r9d\n"
    : "+r"(p) : : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
}
static struct regs fresh(long number) {
  return (struct regs){number, 0x1b, 0, 0x1d, 0x15, -0x1d1L, 0x1bb, 0x18, MARK, 0x110, 0, 0x112, 0x113, 0x114, 0x115};
}
static __thread volatile int count, right, depth; static volatile int alarms; static char *alt; static volatile int nests;
static void handler(int s, siginfo_t *i, void *c) {
  ucontext_t *u = c; greg_t *g = u->uc_mcontext.gregs; char here; count++;
  int ok = s == SIGSYS && i->si_signo == SIGSYS && i->si_code == 1 && i->si_arch == AUDIT_ARCH_X86_64 && i->si_errno == 7 && i->si_syscall == (int)g[REG_RAX];
  ok &= (long)i->si_call_addr == g[REG_RIP] && ((unsigned char *)g[REG_RIP])[-2] == 0x0f && ((unsigned char *)g[REG_RIP])[-1] == 0x05;
  ok &= g[REG_RCX] == g[REG_RIP] && (g[REG_R11] & ~0x10000L) == (g[REG_EFL] & ~0x10000L);
  if (g[REG_R9] == MARK && g[REG_RIP] == (long)after_call)
    ok &= g[REG_RBX] == 0x1b && g[REG_RDX] == 0x1d && g[REG_RSI] == 0x15 && g[REG_RDI] == -0x1d1 && g[REG_RBP] == 0x1bb && g[REG_R8] == 0x18 && g[REG_R10] == 0x110 && g[REG_R12] == 0x112 && g[REG_R13] == 0x113 && g[REG_R14] == 0x114 && g[REG_R15] == 0x115;
  if (alt) ok &= &here > alt && &here < alt + 65536;
  right += ok; int n = i->si_syscall;
  if (nests && depth < 5) { depth++; struct regs r = fresh(SYS_getpgrp); call(&r); ok = r.rax == 1000 + SYS_getpgrp; right += ok - 1; depth--; }
  g[REG_RAX] = 1000 + n;
}
static void on_alarm(int s) { alarms++; }
static void install(int flags) { struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags}; sigaction(SIGSYS, &a, 0); }
static const int all[] = {SYS_getpgrp, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_openat, SYS_readv, SYS_writev, SYS_pread64, SYS_poll, SYS_ppoll, SYS_nanosleep, SYS_futex, SYS_pause, SYS_epoll_pwait,
  SYS_prctl, SYS_arch_prctl, SYS_seccomp, SYS_tkill, SYS_ptrace, SYS_unshare, SYS_setns, SYS_shmat, SYS_io_setup, SYS_userfaultfd, SYS_process_vm_writev, SYS_munlockall, SYS_ioctl, SYS_dup, SYS_fcntl, SYS_memfd_create, SYS_chroot, 435, SYS_clone, SYS_fork, SYS_vfork, SYS_execve, SYS_execveat};
enum { ALL = sizeof all / sizeof *all };
static int each(void) {
  int bad = 0;
  for (int i = 0; i < ALL; i++) {
    struct regs r = fresh(all[i]); int before = right; call(&r);
    int ok = right == before + 1 && r.rax == 1000 + all[i] && r.rbx == 0x1b && r.rdx == 0x1d && r.rsi == 0x15 && r.rdi == -0x1d1 && r.rbp == 0x1bb && r.r8 == 0x18 && r.r9 == MARK && r.r10 == 0x110 && r.r12 == 0x112 && r.r13 == 0x113 && r.r14 == 0x114 && r.r15 == 0x115;
    if (!ok) { printf("call %d: %ld %d\n", all[i], r.rax, right - before); bad++; }
  }
  return bad;
}
static void *thread(void *p) { long bad = each(); return (void *)(bad * 100000 + (count == right ? count : -1)); }
static volatile long sum;
static void work(void) { for (int i = 0; i < 2000000; i++) sum += i & 3; }
int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "calls"; setvbuf(stdout, 0, _IONBF, 0); int st;
  if (!strcmp(way, "errno") || !strcmp(way, "log")) {
    int some[] = {SYS_getpgrp, SYS_chroot, SYS_munlockall, SYS_unshare, SYS_shmat, SYS_io_setup}; int logs = *way == 'l';
    filter(some, logs ? 1 : 6, logs ? SECCOMP_RET_LOG : SECCOMP_RET_ERRNO | 77); work();
    for (int i = 0; i < 6; i++) { errno = 0; long r = logs ? syscall(SYS_getpgrp) > 0 : syscall(some[i], -1L, 0, 0); printf("%ld %d\n", r, errno); }
    return 0;
  }
  install(0); work(); marked(all, ALL, SECCOMP_RET_TRAP | 7);
  if (!strcmp(way, "calls")) {
    int bad = each(); work(); bad += each();
    stack_t s = {.ss_sp = alt = malloc(65536), .ss_size = 65536}; sigaltstack(&s, 0); install(SA_ONSTACK); bad += each(); install(SA_ONSTACK | SA_NODEFER); bad += each();
    printf("%d %d %d\n", bad, count, right);
    // Calls beside them are made.
    pid_t k = fork(); if (!k) { execl("/bin/echo", "echo", "executed", (char *)0); _exit(9); } waitpid(k, &st, 0); printf("%x\n", st);
  } else if (!strcmp(way, "nested")) {
    install(SA_NODEFER); nests = 1; struct regs r = fresh(SYS_mmap); call(&r); printf("%ld %d %d\n", r.rax, count, right);
  } else if (!strcmp(way, "threads")) {
    pthread_t t[4]; int bad = 0; for (int i = 0; i < 4; i++) pthread_create(t + i, 0, thread, 0);
    for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); printf("%ld\n", (long)r); }
    pid_t k = fork(); if (!k) { count = right = 0; bad = each(); printf("child %d %d %d\n", bad, count, right); _exit(3); } waitpid(k, &st, 0); printf("%x\n", st);
  } else if (!strcmp(way, "starts")) {
    // Plain starts work as ever; reported ones start nothing.
    long flags[] = {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, SIGCHLD, CLONE_VM | SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD};
    for (int i = 0; i < 400; i++) { struct regs r = fresh(SYS_clone); r.rdi = flags[i % 4]; call(&r); if (r.rax != 1000 + SYS_clone) printf("clone %d: %ld\n", i, r.rax); }
    sigset_t m; sigprocmask(SIG_BLOCK, 0, &m); printf("%d\n", sigisemptyset(&m)); printf("%d %d\n", count, waitpid(-1, 0, WNOHANG));
    pid_t k = fork(); if (!k) _exit(4); waitpid(k, &st, 0); printf("%x\n", st); pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0);
    sigprocmask(SIG_BLOCK, 0, &m); printf("%d\n", sigisemptyset(&m));
  } else if (!strcmp(way, "timer")) {
    signal(SIGALRM, on_alarm); struct itimerval v = {{0, 300}, {0, 300}}; setitimer(ITIMER_REAL, &v, 0);
    int bad = 0; while (alarms < 2000) bad += each(); struct itimerval off = {{0}}; setitimer(ITIMER_REAL, &off, 0);
    sigset_t m; sigprocmask(SIG_BLOCK, 0, &m); printf("%d %d %d\n", bad, count == right, sigisemptyset(&m));
  } else {
    // The kernel ends the program: its signal is blocked, ignored or has no handler.
    int kinds[] = {SYS_getpgrp, SYS_mmap, SYS_clone, SYS_ppoll};
    for (int i = 0; i < 4; i++) {
      pid_t k = fork();
      if (!k) { sigset_t m; sigemptyset(&m); sigaddset(&m, SIGSYS); if (*way == 'b') sigprocmask(SIG_BLOCK, &m, 0); else signal(SIGSYS, *way == 'i' ? SIG_IGN : SIG_DFL);
        struct rlimit none = {0, 0}; setrlimit(RLIMIT_CORE, &none); struct regs r = fresh(kinds[i]); call(&r); _exit(9); }
      waitpid(k, &st, 0); printf("%x\n", st);
    }
  }
  return 0;
}
