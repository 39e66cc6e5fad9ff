// build: -O2 -pthread | -O2 -static -pthread
// Frames of signals that have to grow the stack, as deep as the limit allows and beyond; structures of calls on parts of the stack that were never touched.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile int calls; static sigjmp_buf back;
static void on_usr1(int s) { (void)s; calls++; }
static void on_info(int s, siginfo_t *i, void *c) { (void)s; (void)c; calls += i->si_signo == SIGUSR2; }
static void on_fault(int s, siginfo_t *i, void *c) { (void)i; (void)c; siglongjmp(back, s); }
static void __attribute__((noinline)) deep(int n, int signal) { volatile char b[1024]; b[0] = n; raise(signal); if (n) deep(n - 1, signal); b[1] = 0; }
static void __attribute__((noinline)) steps(int n) { volatile char b[4096 * 3]; b[sizeof b - 1] = n; if (n) steps(n - 1); b[sizeof b - 1] = 0; }
// The stack pointer goes down by megabytes, and only the kernel has touched what is there.
static int __attribute__((noinline)) untouched(int n) {
  struct { struct sigaction old; char gap[1 << 20]; stack_t stack; sigset_t mask; } *v = __builtin_alloca(sizeof *v); int r = 0;
  struct sigaction *far = (void *)v; r |= sigaction(SIGUSR1, 0, far); r |= far->sa_handler != on_usr1; r |= sigaltstack(0, &v->stack); r |= sigprocmask(SIG_BLOCK, 0, &v->mask);
  return r | (n ? untouched(n - 1) : 0);
}
static void *thread(void *x) { deep(100, SIGUSR1); return x; }
int main(void) {
  static char alt[65536]; stack_t st = {.ss_sp = alt, .ss_size = sizeof alt}; sigaltstack(&st, 0); struct sigaction sa; memset(&sa, 0, sizeof sa);
  signal(SIGUSR1, on_usr1); sa.sa_sigaction = on_info; sa.sa_flags = SA_SIGINFO; sigaction(SIGUSR2, &sa, 0);
  deep(600, SIGUSR1); printf("%d\n", calls); deep(1200, SIGUSR2); printf("%d\n", calls);
  printf("untouched %d\n", untouched(2));
  pthread_t t; pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setstacksize(&at, 1 << 20); pthread_create(&t, &at, thread, 0); pthread_join(t, 0); printf("%d\n", calls);
  // A timer in a recursion.
  struct sigaction tick; memset(&tick, 0, sizeof tick); tick.sa_handler = on_usr1; tick.sa_flags = SA_RESTART; sigaction(SIGALRM, &tick, 0); calls = 0;
  struct itimerval it = {{0, 500}, {0, 500}}; setitimer(ITIMER_REAL, &it, 0); for (int i = 0; i < 20 || calls < 5; i++) steps(300); memset(&it, 0, sizeof it); setitimer(ITIMER_REAL, &it, 0); puts("timer");
  // Beyond the limit: the handler's frame does not fit.
  struct rlimit rl = {3 << 20, 64 << 20}; setrlimit(RLIMIT_STACK, &rl); sa.sa_sigaction = on_fault; sa.sa_flags = SA_SIGINFO | SA_ONSTACK; sigaction(SIGSEGV, &sa, 0);
  if (!sigsetjmp(back, 1)) deep(100000, SIGUSR1); else puts("overflow");
  if (!sigsetjmp(back, 1)) deep(100000, SIGUSR2); else puts("overflow again");
}
