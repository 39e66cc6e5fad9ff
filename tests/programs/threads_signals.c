// Signals and threads: directed ones to each thread, masks inherited and own, alternate stacks of each, faults in several at once, a
// profiling timer over all, and a storm between two threads.
// build: -O2 -pthread | -O2 -static -pthread
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static _Thread_local volatile int mine; static _Thread_local long self; static atomic_int wrong, ticks; static sem_t ready, go; static atomic_int stop;
static void usr(int s, siginfo_t *i, void *c) { (void)c; mine++; if (i->si_value.sival_int != self) wrong++; if (s != SIGRTMIN) wrong++; }
static void prof(int s) { (void)s; atomic_fetch_add(&ticks, 1); }
enum { N = 4 };
static unsigned long burn(unsigned long x, int n) { for (int i = 0; i < n; i++) { x = x * 6364136223846793005u + 1; if (x >> 63) x ^= x >> 7; } return x; }
static void *receiver(void *p) {
  self = (long)p; sem_post(&ready); sem_wait(&go);
  unsigned long a = burn(self, 100000); while (mine < 50) a += burn(a, 100); sem_post(&ready);
  while (!stop) sched_yield(); return (void *)(long)mine; }
static char *guard; static _Thread_local char *page;
static void segv(int s, siginfo_t *i, void *c) { (void)s; (void)c; char here; stack_t st; sigaltstack(NULL, &st); if (!(st.ss_flags & SS_ONSTACK) || &here < (char *)st.ss_sp || &here >= (char *)st.ss_sp + st.ss_size) wrong++;
  char *at = (char *)((unsigned long)i->si_addr & ~4095ul); if (at != page) wrong++; mprotect(at, 4096, PROT_READ | PROT_WRITE); }
static void *faulter(void *p) {
  stack_t st = {.ss_sp = malloc(32768), .ss_size = 32768}; sigaltstack(&st, NULL); page = guard + 4096 * (long)p; long s = 0;
  for (int r = 0; r < 200; r++) { mprotect(page, 4096, PROT_NONE); page[r] = r; s += page[r]; } return (void *)s; }
static volatile long pings; static pthread_t other[2]; static _Thread_local volatile int storm;
static void ping(int s) { (void)s; storm++; }
static void *stormy(void *p) { long id = (long)p; struct timespec nap = {0, 20000}; sem_wait(&go); for (int r = 0; r < 2000; r++) { pthread_kill(other[!id], SIGUSR2); if (r % 64 == 0) nanosleep(&nap, NULL); burn(r, 50); } sem_post(&ready); while (!stop) sched_yield(); return (void *)(long)(storm > 0); }
static void *masked(void *p) { (void)p; sigset_t m; pthread_sigmask(SIG_BLOCK, NULL, &m); stack_t st; sigaltstack(NULL, &st); return (void *)(long)(sigismember(&m, SIGHUP) * 4 + sigismember(&m, SIGTERM) * 2 + (st.ss_flags == SS_DISABLE)); }
static void *steady(void *p) { return (void *)burn((long)p, 4000000); }
int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = usr; sa.sa_flags = SA_SIGINFO; sigaction(SIGRTMIN, &sa, NULL);
  sem_init(&ready, 0, 0); sem_init(&go, 0, 0); pthread_t t[N]; void *v;
  for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, receiver, (void *)(i + 10)); for (int i = 0; i < N; i++) { while (sem_wait(&ready)); } for (int i = 0; i < N; i++) sem_post(&go);
  for (int r = 0; r < 50; r++) for (int i = 0; i < N; i++) while (pthread_sigqueue(t[i], SIGRTMIN, (union sigval){.sival_int = i + 10})) usleep(100);
  for (int i = 0; i < N; i++) while (sem_wait(&ready)); stop = 1; for (int i = 0; i < N; i++) { pthread_join(t[i], &v); printf("%ld ", (long)v); } printf("wrong %d\n", wrong);
  sigset_t m, old; sigemptyset(&m); sigaddset(&m, SIGHUP); pthread_sigmask(SIG_BLOCK, &m, &old); stack_t st = {.ss_sp = malloc(32768), .ss_size = 32768}; sigaltstack(&st, NULL);
  pthread_create(&t[0], NULL, masked, NULL); pthread_join(t[0], &v); printf("mask %ld\n", (long)v); pthread_sigmask(SIG_SETMASK, &old, NULL);
  guard = mmap(NULL, 4096 * N, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(&sa, 0, sizeof sa); sa.sa_sigaction = segv; sa.sa_flags = SA_SIGINFO | SA_ONSTACK; sigaction(SIGSEGV, &sa, NULL);
  for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, faulter, (void *)i); for (int i = 0; i < N; i++) { pthread_join(t[i], &v); printf("%ld ", (long)v); } printf("wrong %d\n", wrong);
  memset(&sa, 0, sizeof sa); sa.sa_handler = ping; sa.sa_flags = SA_RESTART; sigaction(SIGUSR2, &sa, NULL); stop = 0;
  for (long i = 0; i < 2; i++) pthread_create(&other[i], NULL, stormy, (void *)i); sem_post(&go); sem_post(&go); for (int i = 0; i < 2; i++) while (sem_wait(&ready)); stop = 1; for (int i = 0; i < 2; i++) { pthread_join(other[i], &v); printf("storm %ld\n", (long)v); }
  sa.sa_handler = prof; sigaction(SIGPROF, &sa, NULL); struct itimerval it = {{0, 1000}, {0, 1000}}; setitimer(ITIMER_PROF, &it, NULL); unsigned long sum = 0;
  do { for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, steady, (void *)i); sum = 0; for (int i = 0; i < N; i++) { pthread_join(t[i], &v); sum += (unsigned long)v; } } while (ticks < 20);
  memset(&it, 0, sizeof it); setitimer(ITIMER_PROF, &it, NULL); printf("%lx\n", sum);
}
