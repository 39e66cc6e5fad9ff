// build: -O2 | -O1 -no-pie
// run: all
// run: forked
// run: executed
// run: spawned
// Four parts of a deterministic computation: all in one process, each in a child, each in a program, each in a process that
// shares memory until it executes one.
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static unsigned long step(unsigned long x) { return x * 6364136223846793005ul + 1442695040888963407ul; }
static unsigned long other(unsigned long x) { return x ^ (x >> 7); }
__attribute__((noinline)) unsigned long part(int n) {
  static unsigned long table[64]; unsigned long (*f[2])(unsigned long) = {step, other}, x = n + 1, sum = 0; memset(table, 0, sizeof table);
  for (int i = 0; i < 20000 + 500 * n; i++) { x = f[(x >> 33) & 1](x) + i; table[x >> 58] += n; if (x & 4) sum += table[(x >> 20) & 63]; switch ((x >> 40) & 7) { case 0: sum ^= x; break; case 3: sum += 5; break; case 6: sum <<= 1; break; default: break; } }
  return sum;
}
int main(int c, char **v) {
  setvbuf(stdout, NULL, _IONBF, 0); if (c < 2) return 1;
  if (v[1][0] >= '0' && v[1][0] <= '9') { printf("%lx\n", part(atoi(v[1]))); return 0; }
  for (int n = 0; n < 4; n++) {
    int st; pid_t p; char number[2] = {'0' + n, 0}, *a[] = {v[0], number, NULL};
    if (!strcmp(v[1], "all")) { printf("%lx\n", part(n)); continue; }
    if (!strcmp(v[1], "spawned")) { if (posix_spawn(&p, "/proc/self/exe", NULL, NULL, a, environ)) return 2; }
    else if (!(p = fork())) { if (!strcmp(v[1], "executed")) { execv("/proc/self/exe", a); _exit(3); } printf("%lx\n", part(n)); _exit(0); }
    if (waitpid(p, &st, 0) != p || st) return 4;
  }
}
