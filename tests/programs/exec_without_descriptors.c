// build: -O1 -static -w
// run: used execute
// run: used start
// run: lowered execute
// run: none execute
// run: none start
// A program that has all descriptors that it may have becomes another, or starts one.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static long work(void) { volatile long s = 0; for (int i = 0; i < 20000; i++) s += i; return s; }
int main(int c, char **v) {
  if (c < 2) { printf("%ld, descriptor %d\n", work(), open("/dev/null", 0)); return 0; }
  struct rlimit l; getrlimit(RLIMIT_NOFILE, &l); l.rlim_cur = strcmp(v[1], "none") ? 40 : 0; if (!strcmp(v[1], "lowered")) l.rlim_max = 40; setrlimit(RLIMIT_NOFILE, &l);
  while (open("/dev/null", 0) >= 0);
  if (!strcmp(v[2], "execute")) execl("/proc/self/exe", v[0], NULL);
  if (!vfork()) { execl("/proc/self/exe", v[0], NULL); _exit(1); }
  int status; wait(&status); printf("%d, limit %ld\n", status, getrlimit(RLIMIT_NOFILE, &l) ? -1 : (long)l.rlim_cur);
}
