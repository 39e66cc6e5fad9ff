// Asks for restrictions of its system calls, for GS and for a shadow stack in ways that the kernel refuses, also as an ordinary user. Nothing has changed then.
// build: -O2 | -O0 -static
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define RET(k) BPF_STMT(BPF_RET | BPF_K, k)
#define BEYOND (~0ul << 47)
static void say(const char *what, long result) {
  int e = errno;
  printf("%s: %ld %d\n", what, result, result ? e : 0);
}
static void filter(const char *what, struct sock_filter *f, int n) {
  struct sock_fprog program = {n, f};
  say(what, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
  say(what, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}
int main(void) {
  static char selector;
  volatile long sum = 0;
  say("strict with flags", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0));
  say("strict with a program", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, &selector));
  say("dispatch off with a range", prctl(59, 0, 1, 1, 0));
  say("dispatch of a wrong range", prctl(59, 1, 8, -8ul, &selector));
  say("dispatch of a wrong mode", prctl(59, 77, 0, 0, &selector));
  say("dispatch with a selector of the kernel's", prctl(59, 1, 0, 0, BEYOND));
  say("gs of the kernel's", syscall(SYS_arch_prctl, 0x1001, BEYOND));
  say("gs that is not canonical", syscall(SYS_arch_prctl, 0x1001, 1ul << 62));
  say("shadow stack of no such feature", syscall(SYS_arch_prctl, 0x5001, 1ul << 40));
  say("shadow stack of two features", syscall(SYS_arch_prctl, 0x5001, 3));
  // Where there is one it is a restriction that is not refused.
  FILE *info = fopen("/proc/cpuinfo", "r");
  char line[4096], *found = NULL;
  extern char *strstr(const char *, const char *);
  while (fgets(line, sizeof line, info) && !(found = strstr(line, "user_shstk"))) continue;
  fclose(info);
  if (!found) say("shadow stack", syscall(SYS_arch_prctl, 0x5001, 1));
  struct sock_filter endless[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
  struct sock_filter far[] = {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), RET(SECCOMP_RET_KILL_PROCESS)};
  struct sock_filter kill[] = {RET(SECCOMP_RET_KILL_PROCESS)};
  filter("endless filter", endless, 1);
  filter("filter that jumps too far", far, 2);
  for (int i = 0; i < 100000; i++) sum += i & 3;
  if (!geteuid()) say("user", setresuid(65534, 65534, 65534));
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) filter("filter without the right", kill, 1);
  for (int i = 0; i < 100000; i++) sum += i & 3;
  printf("%ld\n", sum);
  return 3;
}
