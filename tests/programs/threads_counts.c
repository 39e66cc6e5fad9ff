// Threads with fixed work and no waiting loops: the counts of their parts are those that the parts have alone.
// With a number, does the part of that thread alone, in the first thread; with "all", all parts there, one after the
// other; with "killed", the process is killed when the threads have done their parts and are still there; with
// "ticking", signals interrupt them all the time.
// build: -O2 -pthread | -O1 -pthread -no-pie
// run:
// run: all
// run: 2
// run: killed
// run: ticking
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
enum { N = 4 };
static unsigned long result[N]; static pthread_barrier_t done; static int stay;
static unsigned long collatz(unsigned long n) { unsigned long steps = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; steps++; } return steps; }
static unsigned long odd(unsigned long x) { return x ^ 5; }
static unsigned long even(unsigned long x) { return x + 3; }
static unsigned long (*const pick[2])(unsigned long) = { even, odd };
__attribute__((noinline)) static unsigned long part(long id) {
  unsigned long x = id + 1, s = 0;
  for (int i = 1; i < 3000 * (int)(id + 1); i++) {
    s += collatz(i); x = pick[s & 1](x * 7 + s);
    switch (x % 6) { case 0: s += 1; break; case 1: s ^= x; break; case 2: s += i; break; case 3: s -= 3; break; case 4: s ^= 11; break; default: s += 2; }
  }
  return s;
}
static volatile int ticks; static void tick(int s) { ticks += s; }
static void *work(void *p) { long id = (long)p; result[id] = part(id); if (stay) { pthread_barrier_wait(&done); pause(); } return NULL; }
int main(int argc, char **argv) {
  stay = argc > 1 && !strcmp(argv[1], "killed");
  if (argc > 1 && !strcmp(argv[1], "ticking")) { struct sigaction a = { .sa_handler = tick, .sa_flags = SA_RESTART }; sigaction(SIGPROF, &a, NULL); sigaction(SIGALRM, &a, NULL); struct itimerval it = { { 0, 200 }, { 0, 200 } }; setitimer(ITIMER_PROF, &it, NULL); setitimer(ITIMER_REAL, &it, NULL); argc = 1; }
  if (argc > 1 && !stay) { for (long i = 0; i < N; i++) if (!strcmp(argv[1], "all") || atol(argv[1]) == i) printf("%ld %lu\n", i, part(i)); return 0; }
  pthread_barrier_init(&done, NULL, N + 1);
  pthread_t t[N]; for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, work, (void *)i);
  if (stay) { pthread_barrier_wait(&done); kill(getpid(), SIGKILL); }
  for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < N; i++) printf("%d %lu\n", i, result[i]);
}
