// Filters that ask, that are refused, that allow what an ordinary program needs (as container engines and service managers set them), and that allow little; then threads, a child and another program.
// build: -O2 -pthread | -O0 -static -pthread
// run: query
// run: wide
// run: narrow
// run: address
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define IS(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define RET(k) BPF_STMT(BPF_RET | BPF_K, k)
#define NR offsetof(struct seccomp_data, nr)
static struct sock_filter filter[4096]; static int n;
static void add(struct sock_filter i) { filter[n++] = i; }
static long set(int how) {
  struct sock_fprog f = {n, filter}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return how ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &f) : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f);
}
static void refuse(const int *calls, int count, int error) {
  n = 0; add((struct sock_filter)LOAD(offsetof(struct seccomp_data, arch))); add((struct sock_filter)IS(AUDIT_ARCH_X86_64, 1, 0)); add((struct sock_filter)RET(SECCOMP_RET_KILL_PROCESS));
  add((struct sock_filter)LOAD(NR));
  for (int i = 0; i < count; i++) { add((struct sock_filter)IS(calls[i], 0, 1)); add((struct sock_filter)RET(SECCOMP_RET_ERRNO | error)); }
  add((struct sock_filter)RET(SECCOMP_RET_ALLOW));
}
static volatile long sum;
static void work(void) { for (int i = 0; i < 3000000; i++) sum += i & 3; }
static void *thread(void *x) { work(); return 0; }
static void all(void) {
  work(); pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0);
  unsigned char code[] = {0xb8, 7, 0, 0, 0, 0xc3}, *p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memcpy(p, code, 6); printf("%d\n", ((int (*)(void))p)());
  fflush(stdout); pid_t k = fork(); if (!k) { work(); _exit(3); } int s; waitpid(k, &s, 0); printf("child %x\n", s); fflush(stdout);
  k = fork(); if (!k) { execl("/bin/echo", "echo", "executed", (char *)0); _exit(9); } waitpid(k, &s, 0); printf("program %x %ld\n", s, sum);
}
int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "query";
  if (!strcmp(way, "query")) {
    unsigned a = SECCOMP_RET_ALLOW; struct { short a, b, c; } sizes; printf("query %ld %ld\n", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &a), syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes));
    printf("flags %d\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0xffff, 0) ? errno : 0); printf("null %d\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0) ? errno : 0);
    printf("get %d %d\n", prctl(PR_GET_SECCOMP), syscall(SYS_seccomp, 77, 0, 0) ? errno : 0); unsigned long gs = 1; syscall(SYS_arch_prctl, 0x1004, &gs); printf("gs %lu %d\n", gs, syscall(SYS_arch_prctl, 0x1004, 8l) ? errno : 0);
    struct sock_fprog none = {0, filter}; printf("empty %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none) ? errno : 0);
  } else if (!strcmp(way, "wide")) {
    // A part of what engines refuse.
    int calls[] = {SYS_mount, SYS_umount2, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_init_module, SYS_delete_module, SYS_kexec_load, SYS_bpf, SYS_keyctl, SYS_add_key, SYS_pivot_root, SYS_unshare, SYS_setns, SYS_acct, SYS_settimeofday, SYS_perf_event_open, SYS_userfaultfd, SYS_ptrace};
    refuse(calls, sizeof calls / sizeof *calls, EPERM); printf("set %ld\n", set(0)); printf("again %ld\n", set(1));
    int r = syscall(SYS_unshare, 0); printf("refused %d %d\n", r, errno);
  } else if (!strcmp(way, "narrow")) {
    int calls[] = {SYS_process_vm_readv, SYS_rt_tgsigqueueinfo}; refuse(calls, 2, EPERM); printf("set %ld\n", set(1)); int r = syscall(SYS_process_vm_readv, 0, 0, 0, 0, 0, 0); printf("refused %d %d\n", r, errno);
  } else {
    // Only from below the stack's half of the addresses: looks at where a call comes from.
    n = 0; add((struct sock_filter)LOAD(offsetof(struct seccomp_data, instruction_pointer) + 4)); add((struct sock_filter)IS(0x1234, 0, 1)); add((struct sock_filter)RET(SECCOMP_RET_ERRNO | 1)); add((struct sock_filter)RET(SECCOMP_RET_ALLOW));
    printf("set %ld\n", set(0));
  }
  all(); return 0;
}
