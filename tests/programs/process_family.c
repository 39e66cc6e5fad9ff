// build: -O2 | -O2 -static
// fork, vfork, posix_spawn, system, popen, raw clone, exec with long arguments, waitpid statuses, pipes between them.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int c, char **v) {
  if (c > 1) { printf("child %zu %d %s\n", strlen(v[1]), c, getenv("LONGVAR") ? "long" : "none"); return 5; }
  setvbuf(stdout, NULL, _IONBF, 0); struct rlimit z = {0, 0}; setrlimit(RLIMIT_CORE, &z); int st;
  for (int i = 0; i < 30; i++) { pid_t p = fork(); if (!p) { volatile long s = 0; for (int j = 0; j < 1000 * i; j++) s += j; _exit((int)(s & 63)); } waitpid(p, &st, 0); printf("%d ", WEXITSTATUS(st)); } puts("");
  int sg[] = {SIGSEGV, SIGABRT, SIGKILL, SIGTERM}; for (int i = 0; i < 4; i++) { pid_t p = fork(); if (!p) { if (i == 0) *(volatile int *)0 = 1; raise(sg[i]); _exit(1); } waitpid(p, &st, 0); printf("%d %d\n", WIFSIGNALED(st), WTERMSIG(st)); }
  volatile int shared = 1; pid_t p = vfork(); if (!p) { shared = 42; _exit(3); } waitpid(p, &st, 0); printf("vfork %d %d\n", shared, WEXITSTATUS(st));
  p = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); if (!p) _exit(9); waitpid(p, &st, 0); printf("clone %d\n", WEXITSTATUS(st));
  char *a[] = {"sh", "-c", "echo spawned; exit 4", NULL}; posix_spawn(&p, "/bin/sh", NULL, NULL, a, environ); waitpid(p, &st, 0); printf("spawn %d\n", WEXITSTATUS(st));
  printf("system %d\n", WEXITSTATUS(system("echo from system; exit 6"))); FILE *f = popen("printf 'a b c' | tr a-c x-z", "r"); char b[50] = ""; if (!fgets(b, 50, f)) return 2; printf("popen %s %d\n", b, pclose(f));
  p = fork(); if (!p) { char *big = malloc(100001); memset(big, 'y', 100000); big[100000] = 0; setenv("LONGVAR", big, 1); execl("/proc/self/exe", v[0], big, "2", (char *)0); _exit(99); } waitpid(p, &st, 0); printf("exec %d\n", WEXITSTATUS(st));
  char *no[] = {"x", NULL}; printf("noexec %d\n", execv("/no/such/program", no));
}
