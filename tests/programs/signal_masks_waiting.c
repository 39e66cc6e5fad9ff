// build: -O2 | -O2 -static
// What is blocked in a handler that interrupted a call with a mask of its own: sigsuspend, ppoll, pselect, epoll_pwait; two signals
// that both end one call; the mask afterwards.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
static char log_[4096]; static int at_;
static unsigned long now_blocked(void) { unsigned long m = 0; syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &m, 8); return m; }
static void h(int s, siginfo_t *i, void *c) { (void)i; ucontext_t *u = c; at_ += sprintf(log_ + at_, " [%d blocked %lx saved %lx", s, now_blocked(), *(unsigned long *)&u->uc_sigmask); }
static void e(int s, siginfo_t *i, void *c) { h(s, i, c); at_ += sprintf(log_ + at_, "]"); }
static void say(const char *what, int r) { int n = errno; printf("%s %d %d%s then %lx\n", what, r, r < 0 ? n : 0, log_, now_blocked()); at_ = 0; log_[0] = 0; }
static int ep;
static int wait_in(int how, const sigset_t *m) {
  struct timespec t = {5, 0}; struct epoll_event v;
  switch (how) {
  case 0: return sigsuspend(m);
  case 1: return ppoll(NULL, 0, &t, m);
  case 2: return pselect(0, NULL, NULL, NULL, &t, m);
  case 3: return epoll_pwait(ep, &v, 1, 5000, m);
  default: return syscall(441, ep, &v, 1, &t, m, 8); // epoll_pwait2
  } }
int main(void) {
  ep = epoll_create1(0); static const char *names[] = {"sigsuspend", "ppoll", "pselect", "epoll_pwait", "epoll_pwait2"};
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_flags = SA_SIGINFO; sigset_t all, some, none; sigfillset(&all); sigemptyset(&none);
  for (int flags = 0; flags < 3; flags++) for (int how = 0; how < 5; how++) {
    sa.sa_flags = SA_SIGINFO | (flags == 1 ? SA_RESTART : 0); sa.sa_sigaction = e; sigemptyset(&sa.sa_mask); if (flags == 2) sigaddset(&sa.sa_mask, SIGUSR2), sigaddset(&sa.sa_mask, SIGRTMIN + 1);
    sigaction(SIGUSR1, &sa, NULL); sigaction(SIGUSR2, &sa, NULL); sigaction(SIGRTMIN + 1, &sa, NULL); sigaction(SIGALRM, &sa, NULL);
    sigset_t b; sigemptyset(&b); sigaddset(&b, SIGUSR1); sigaddset(&b, SIGUSR2); sigaddset(&b, SIGHUP); sigaddset(&b, SIGRTMIN + 1); sigaddset(&b, SIGALRM); sigprocmask(SIG_SETMASK, &b, NULL);
    // Pending before the call: one, then three of which one stays blocked.
    raise(SIGUSR1); say(names[how], wait_in(how, &none));
    sigemptyset(&some); sigaddset(&some, SIGUSR2); sigaddset(&some, SIGTERM); raise(SIGRTMIN + 1); raise(SIGUSR2); raise(SIGUSR1); say(names[how], wait_in(how, &some));
    sigset_t p; sigpending(&p); printf("pending %lx\n", *(unsigned long *)&p);
    sigprocmask(SIG_SETMASK, &none, NULL); printf("released%s\n", log_); at_ = 0; log_[0] = 0; sigprocmask(SIG_SETMASK, &b, NULL);
    // While it waits.
    timer_t t; struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM}; timer_create(CLOCK_MONOTONIC, &ev, &t);
    struct itimerspec its = {{0, 0}, {0, 3000000}}; timer_settime(t, 0, &its, NULL); say(names[how], wait_in(how, &none)); timer_delete(t);
    // A mask that cannot be read, and nothing to wait for.
    errno = 0; if (how != 2) { int r = wait_in(how, (void *)8); say("bad mask", r); }
    struct timespec zero = {0, 0}; if (how == 1) say("at once", ppoll(NULL, 0, &zero, &none));
    sigprocmask(SIG_SETMASK, &none, NULL);
  }
}
