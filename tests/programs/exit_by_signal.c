// build: -O2
// run: segv
// run: abrt
// run: kill
// run: term
// run: fpe
// run: ill
// run: trap
// run: pipe
// Death by a signal is seen as such by the parent.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int c, char **v) {
  if (c < 2) return 1;
  printf("before %s\n", v[1]); fflush(stdout); fprintf(stderr, "words on stderr\n");
  if (!strcmp(v[1], "segv")) *(volatile int *)8 = 1;
  if (!strcmp(v[1], "abrt")) abort();
  if (!strcmp(v[1], "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(v[1], "term")) raise(SIGTERM);
  if (!strcmp(v[1], "fpe")) { volatile int z = 0; printf("%d\n", 1 / z); }
  if (!strcmp(v[1], "ill")) __asm__ volatile("ud2");
  if (!strcmp(v[1], "trap")) __asm__ volatile("int3");
  if (!strcmp(v[1], "pipe")) { signal(SIGPIPE, SIG_DFL); int p[2]; if (pipe(p)) return 2; close(p[0]); if (write(p[1], "x", 1) < 0) return 3; }
  return 0;
}
