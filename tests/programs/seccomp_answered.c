// Calls about limits and locked memory, which Trommel answers itself: refused by a filter with an error of its own, then in part, by whether a limit is set; and not by their errors of the kernel's.
// build: -O2 | -O0 -static
// ways: few
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define IS(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define RET(k) BPF_STMT(BPF_RET | BPF_K, k)
static void set(struct sock_filter *f, int n) {
  struct sock_fprog p = {n, f}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); printf("set %ld\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p));
}
static void tell(const char *what, long r) { printf("%s %ld %d\n", what, r, r < 0 ? errno : 0); errno = 0; }
static void all(int resource) {
  struct rlimit l = {7, 7}, new;
  tell("getrlimit", syscall(SYS_getrlimit, resource, &l)); new = l; tell("setrlimit", syscall(SYS_setrlimit, resource, &new));
  tell("prlimit get", syscall(SYS_prlimit64, 0, resource, 0, &l)); tell("prlimit set", syscall(SYS_prlimit64, 0, resource, &new, &l)); tell("prlimit none", syscall(SYS_prlimit64, 0, resource, 0, 0));
  tell("prlimit own", syscall(SYS_prlimit64, getpid(), resource, 0, &l)); tell("nowhere", syscall(SYS_getrlimit, resource, 8)); tell("from nowhere", syscall(SYS_setrlimit, resource, 8));
  tell("no pointer", syscall(SYS_setrlimit, resource, 0)); tell("both nowhere", syscall(SYS_prlimit64, 0, resource, 8, 8)); printf("same %d\n", l.rlim_cur == new.rlim_cur);
}
int main(void) {
  all(RLIMIT_AS); all(RLIMIT_NOFILE); all(RLIMIT_CORE);
  tell("mlockall", syscall(SYS_mlockall, 1 << 20)); tell("mlockall 0", syscall(SYS_mlockall, 0));
  // A limit may be asked for and not be set.
  struct sock_filter part[] = { LOAD(0), IS(SYS_prlimit64, 0, 4), LOAD(offsetof(struct seccomp_data, args) + 16), IS(0, 0, 1), RET(SECCOMP_RET_ALLOW), RET(SECCOMP_RET_ERRNO | EDOM), RET(SECCOMP_RET_ALLOW) };
  set(part, sizeof part / sizeof *part); all(RLIMIT_DATA); all(RLIMIT_NOFILE);
  int calls[] = {SYS_getrlimit, SYS_setrlimit, SYS_prlimit64, SYS_mlockall, SYS_munlockall, SYS_mlock2}; struct sock_filter none[32]; int n = 0;
  none[n++] = (struct sock_filter)LOAD(0);
  for (int i = 0; i < 6; i++) { none[n++] = (struct sock_filter)IS(calls[i], 0, 1); none[n++] = (struct sock_filter)RET(SECCOMP_RET_ERRNO | (40 + i)); }
  none[n++] = (struct sock_filter)RET(SECCOMP_RET_ALLOW);
  set(none, n); all(RLIMIT_AS); all(RLIMIT_NOFILE); all(RLIMIT_CORE);
  tell("mlockall", syscall(SYS_mlockall, MCL_CURRENT)); tell("mlockall later", syscall(SYS_mlockall, MCL_FUTURE)); tell("munlockall", syscall(SYS_munlockall));
  return 0;
}
