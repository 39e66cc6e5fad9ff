// Many processes at a time, that wait for each other. Without an argument they are more than can be observed: eleven hundred.
// build: -O2
// run: 120
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int c, char **v) {
  int n = c > 1 ? atoi(v[1]) : 1100, p[2], st; long sum = 0; if (pipe(p)) return 2;
  for (int i = 0; i < n; i++) { pid_t k = fork(); if (k < 0) return 3; if (!k) { char x; close(p[1]); _exit(read(p[0], &x, 1) ? 101 : i % 100); } }
  close(p[1]); while (wait(&st) > 0) sum += WIFEXITED(st) ? WEXITSTATUS(st) : 1000; printf("%ld\n", sum); return 6; }
