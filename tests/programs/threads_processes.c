// Processes started by threads while others run and allocate: fork, vfork, posix_spawn, popen, with robust mutexes whose owner dies.
// build: -O2 -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ; static atomic_int stop; static atomic_long good;
static void *busy(void *p) { unsigned long n = (unsigned long)p; while (!stop) { char *x = malloc(n % 3000 + 1); memset(x, 1, n % 3000 + 1); n = n * 31 + x[0]; free(x); } return NULL; }
static void *forker(void *p) { long id = (long)p; for (int r = 0; r < 12; r++) { int st; pid_t c = fork(); if (!c) _exit(id * 12 + r); if (waitpid(c, &st, 0) == c && WEXITSTATUS(st) == id * 12 + r) good++;
    volatile int x = 1; c = vfork(); if (!c) { x = 5; _exit(r); } if (waitpid(c, &st, 0) == c && WEXITSTATUS(st) == r && x == 5) good++;
    char *a[] = { "sh", "-c", "exit 4", NULL }; if (!posix_spawn(&c, "/bin/sh", NULL, NULL, a, environ) && waitpid(c, &st, 0) == c && WEXITSTATUS(st) == 4) good++; } return NULL; }
static pthread_mutex_t robust; static void *dier(void *p) { (void)p; pthread_mutex_lock(&robust); return NULL; }
int main(void) { pthread_t b[2], f[3]; for (long i = 0; i < 2; i++) pthread_create(&b[i], NULL, busy, (void *)(i + 1)); for (long i = 0; i < 3; i++) pthread_create(&f[i], NULL, forker, (void *)i);
  for (int i = 0; i < 3; i++) pthread_join(f[i], NULL); stop = 1; for (int i = 0; i < 2; i++) pthread_join(b[i], NULL); printf("good %ld\n", good);
  pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST); pthread_mutex_init(&robust, &a); pthread_t t; pthread_create(&t, NULL, dier, NULL); pthread_join(t, NULL);
  int e = pthread_mutex_lock(&robust); printf("%d\n", e == EOWNERDEAD); pthread_mutex_consistent(&robust); printf("%d\n", pthread_mutex_unlock(&robust)); }
