// One thread gives traps another handler again and again while another computes and traps now and then: each of its traps comes
// to a handler, and no handler is called for anything else.
// build: -O2 -pthread
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
enum { ROUNDS = 2000 };
static atomic_int done, traps; static _Thread_local volatile int mine;
static void handle(void) { if (!mine) _exit(71); mine = 0; traps++; }
static void one(int s) { (void)s; handle(); }
static void other(int s, siginfo_t *i, void *c) { (void)c; if (s != SIGTRAP || i->si_signo != SIGTRAP) _exit(70); handle(); }
static void *worker(void *p) {
  unsigned long x = (unsigned long)p;
  for (int n = 0; n < ROUNDS; n++) {
    for (int i = 0; i < 20000; i++) x = x * 6364136223846793005u + (x >> 60 & 1);
    mine = 1; __asm__ volatile("int3" ::: "memory"); if (mine) _exit(72);
  }
  done = 1; return (void *)(x | 1);
}
int main(void) {
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_handler = one; sigaction(SIGTRAP, &sa, NULL);
  pthread_t t; void *r; pthread_create(&t, NULL, worker, (void *)1);
  for (int n = 0; !done; n++) {
    memset(&sa, 0, sizeof sa);
    if (n & 1) { sa.sa_sigaction = other; sa.sa_flags = SA_SIGINFO; } else sa.sa_handler = one;
    sigaction(SIGTRAP, &sa, NULL);
  }
  pthread_join(t, &r); printf("%d %d\n", r != NULL, traps);
}
