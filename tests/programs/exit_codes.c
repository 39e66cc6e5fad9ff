// build: -O2 | -O2 -static
// run: 0
// run: 1
// run: 42
// run: 127
// run: 255
// run: 256
// run: children
// Exit codes; and all 256 of them through fork and waitpid; atexit order; _exit skips it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void a(void) { puts("first registered"); } static void b(void) { puts("second registered"); }
int main(int c, char **v) {
  if (c < 2) return 9;
  if (strcmp(v[1], "children")) { atexit(a); atexit(b); exit(atoi(v[1])); }
  for (int i = 0; i < 256; i++) { pid_t p = fork(); if (!p) _exit(i); int st; waitpid(p, &st, 0); printf("%d ", WEXITSTATUS(st)); } puts("");
}
