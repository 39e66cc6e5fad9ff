// build: -O2 -pthread
// Eight threads under a storm of signals from kill, tgkill, pthread_kill and sigqueue while they compute, call the kernel and fault:
// values queued by one sender to one thread arrive all and in order, nested handlers see their own thread, sums are right.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
enum { N = 8, EACH = 600, KINDS = 4 };
static _Thread_local int self; static pthread_t t[N]; static pid_t tid[N]; static atomic_int ready, wrong[4], plain, process, stop, done;
static int got[N][KINDS][N], deepest; static _Thread_local int depth;
static void queued(int s, siginfo_t *i, void *c) {
  (void)c; int keep = errno; depth++; if (depth > deepest) deepest = depth;
  int v = i->si_value.sival_int, to = v >> 24, from = v >> 20 & 15, kind = s - SIGRTMIN, n = v & 0xfffff;
  if (i->si_code != SI_QUEUE) wrong[0]++; else if (to != self) wrong[1]++; else if (got[self][kind][from]++ != n) wrong[2]++;
  if (n % 7 == 0) sched_yield();
  depth--; errno = keep; }
static void usr(int s, siginfo_t *i, void *c) { (void)s; (void)c; plain += i->si_code == SI_TKILL; process += i->si_code == SI_USER; if (i->si_pid != getpid()) wrong[3]++; }
static unsigned long burn(unsigned long x, int n) { for (int i = 0; i < n; i++) { x = x * 6364136223846793005u + 1; if (x >> 63) x ^= x >> 7; } return x; }
static void *work(void *p) {
  self = (long)p; tid[self] = syscall(SYS_gettid); ready++; while (ready < N) sched_yield();
  sigset_t none; sigemptyset(&none); pthread_sigmask(SIG_SETMASK, &none, NULL);
  unsigned long sum = self, r = self * 77 + 1; int sent[N][KINDS] = {{0}};
  for (int k = 0; k < EACH; k++) {
    r = r * 6364136223846793005u + 1; int to = r >> 40 & 7, kind = r >> 50 & 3, how = r >> 54 & 7;
    if (how < 4) { union sigval v = {.sival_int = to << 24 | self << 20 | sent[to][kind]++}; while (pthread_sigqueue(t[to], SIGRTMIN + kind, v)) burn(1, 1000); }
    else if (how == 4) pthread_kill(t[to], SIGUSR1); else if (how == 5) syscall(SYS_tgkill, getpid(), tid[to], SIGUSR1); else if (how == 6) kill(getpid(), SIGUSR2);
    else { struct timespec nap = {0, 1000}; nanosleep(&nap, NULL); }
    sum = burn(sum, 200); if (k % 16 == 0) { sigset_t m, old; sigfillset(&m); pthread_sigmask(SIG_BLOCK, &m, &old); sum = burn(sum, 100); pthread_sigmask(SIG_SETMASK, &old, NULL); } else sum = burn(sum, 100);
  }
  done++; while (!stop) { struct timespec nap = {0, 200000}; nanosleep(&nap, NULL); } return (void *)sum; }
int main(void) {
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_flags = SA_SIGINFO | SA_RESTART; sa.sa_sigaction = queued;
  for (int k = 0; k < KINDS; k++) { sa.sa_flags = SA_SIGINFO | SA_RESTART; sigaction(SIGRTMIN + k, &sa, NULL); }
  sa.sa_sigaction = usr; sa.sa_flags = SA_SIGINFO; sigaction(SIGUSR1, &sa, NULL); sigaction(SIGUSR2, &sa, NULL);
  sigset_t m, old; sigfillset(&m); pthread_sigmask(SIG_BLOCK, &m, &old);
  for (long i = 0; i < N; i++) { pthread_create(&t[i], NULL, work, (void *)i); }
  while (done < N) { struct timespec nap = {0, 1000000}; nanosleep(&nap, NULL); }
  stop = 1; unsigned long sum = 0; for (int i = 0; i < N; i++) { void *v; pthread_join(t[i], &v); sum += (unsigned long)v; }
  int all = 0, expect = 0; for (int a = 0; a < N; a++) for (int k = 0; k < KINDS; k++) for (int b = 0; b < N; b++) all += got[a][k][b];
  for (long i = 0; i < N; i++) { unsigned long r = i * 77 + 1; for (int k = 0; k < EACH; k++) { r = r * 6364136223846793005u + 1; expect += (r >> 54 & 7) < 4; } }
  printf("%lx all %d wrong %d %d %d %d, plain %d process %d\n", sum, all == expect, wrong[0], wrong[1], wrong[2], wrong[3], plain > 0, process > 0);
}
