// build: -O2 -pthread
// run: itimer
// run: timers
// run: threads
// Timers of 10 kHz during computation: the results are right and the program gets on. Handlers that return, that jump out, and
// that change a register of what they interrupted.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
static volatile long ticks, wrong; static _Thread_local volatile long mine; static unsigned char table[4096];
static void tick(int s, siginfo_t *i, void *c) { (void)s; (void)i; ucontext_t *u = c; ticks++; mine++; for (int k = 0; k < 32; k++) table[(ticks * 64 + k) & 4095] ^= k; if ((unsigned long)u->uc_mcontext.gregs[REG_RSP] < 4096) wrong++; }
static __attribute__((noinline)) unsigned long mix(unsigned long x, const unsigned *t) { for (int i = 0; i < 64; i++) { x = x * 6364136223846793005u + t[x >> 58]; if (x >> 63) x ^= x >> 7; } return x; }
static unsigned long work(unsigned long x, int n) { unsigned t[64]; for (int i = 0; i < 64; i++) t[i] = i * 2654435761u; for (int i = 0; i < n; i++) x = mix(x, t); return x; }
static void *thread(void *p) {
  timer_t t; struct sigevent ev; memset(&ev, 0, sizeof ev); ev.sigev_notify = SIGEV_THREAD_ID; ev.sigev_signo = SIGRTMIN + 3; ev._sigev_un._tid = syscall(SYS_gettid); timer_create(CLOCK_MONOTONIC, &ev, &t);
  struct itimerspec its = {{0, 200000}, {0, 200000}}; timer_settime(t, 0, &its, NULL); unsigned long s = work((long)p, 30000); while (mine < 20) s ^= 0 * work(1, 100); timer_delete(t); return (void *)s; }
int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "itimer"; struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = tick; sa.sa_flags = SA_SIGINFO | SA_RESTART; sigaction(SIGALRM, &sa, NULL); sigaction(SIGRTMIN + 3, &sa, NULL); sigaction(SIGPROF, &sa, NULL);
  if (!strcmp(how, "threads")) { pthread_t t[4]; unsigned long sum = 0; void *v; for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, thread, (void *)i); for (int i = 0; i < 4; i++) { pthread_join(t[i], &v); sum += (unsigned long)v; } printf("%lx wrong %ld\n", sum, wrong); return 0; }
  if (!strcmp(how, "itimer")) { struct itimerval it = {{0, 100}, {0, 100}}; setitimer(ITIMER_REAL, &it, NULL); }
  else { int clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_PROCESS_CPUTIME_ID}; for (int i = 0; i < 3; i++) { timer_t t; struct sigevent ev; memset(&ev, 0, sizeof ev); ev.sigev_notify = SIGEV_SIGNAL; ev.sigev_signo = i == 0 ? SIGALRM : i == 1 ? SIGRTMIN + 3 : SIGPROF; timer_create(clocks[i], &ev, &t); struct itimerspec its = {{0, 300000}, {0, 300000}}; timer_settime(t, 0, &its, NULL); } }
  unsigned long s = 1; int rounds = 0; do s = work(s, 2000); while (++rounds < 40 || ticks < 100); unsigned long again = 1; for (int i = 0; i < rounds; i++) again = work(again, 2000);
  printf("same %d, ticks %d, wrong %ld\n", s == again, ticks >= 100, wrong);
}
