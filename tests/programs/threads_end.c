// A process ends while its threads run: by exit in one of them, by return from main, by a fault, by a signal sent to one, by exec.
// build: -O2 -pthread | -O2 -static -pthread
// run: exit
// run: return
// run: fault
// run: abort
// run: kill
// run: exec
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
static const char *how; static pthread_barrier_t bar, said;
static void *spin(void *p) { (void)p; pthread_barrier_wait(&bar); for (volatile unsigned long i = 0;; i++) { } return NULL; }
static void *blocked(void *p) { (void)p; pthread_barrier_wait(&bar); for (;;) pause(); return NULL; }
static void *ender(void *p) { (void)p; pthread_barrier_wait(&bar); pthread_barrier_wait(&said); usleep(3000);
  if (!strcmp(how, "exit")) exit(9); if (!strcmp(how, "fault")) *(volatile int *)8 = 1; if (!strcmp(how, "abort")) abort(); if (!strcmp(how, "kill")) pthread_kill(pthread_self(), SIGTERM);
  if (!strcmp(how, "exec")) execl("/bin/sh", "sh", "-c", "echo another program; exit 3", (char *)0);
  for (;;) pause(); return NULL; }
int main(int c, char **v) { how = c > 1 ? v[1] : "return"; setvbuf(stdout, NULL, _IONBF, 0); struct rlimit z = {0, 0}; setrlimit(RLIMIT_CORE, &z); pthread_barrier_init(&bar, NULL, 6); pthread_barrier_init(&said, NULL, 2); pthread_t t;
  for (int i = 0; i < 2; i++) { pthread_create(&t, NULL, spin, NULL); pthread_create(&t, NULL, blocked, NULL); } pthread_create(&t, NULL, ender, NULL); pthread_barrier_wait(&bar); puts("all there"); pthread_barrier_wait(&said);
  if (!strcmp(how, "return")) return 5; pthread_join(t, NULL); return 1; }
