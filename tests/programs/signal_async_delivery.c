// build: -O2 | -O2 -static
// raise, kill, sigqueue; masks, pending, suspend, sigwait, signalfd; SA_RESETHAND, SA_NODEFER, siginfo contents.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
static volatile int depth, maxd, count, val, code, pidok, uidok;
static void info(int s, siginfo_t *i, void *c) { (void)s; (void)c; count++; val = i->si_value.sival_int; code = i->si_code; pidok = i->si_pid == getpid(); uidok = i->si_uid == getuid(); }
static volatile int total;
static void nest(int s) { depth++; if (depth > maxd) maxd = depth; if (total++ < 3) raise(s); depth--; }
static int pend(void) { sigset_t p; sigpending(&p); int r = 0; for (int i = 1; i < 32; i++) if (sigismember(&p, i)) r |= 1 << i; return r; }
int main(void) {
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = info; sa.sa_flags = SA_SIGINFO; sigaction(SIGUSR1, &sa, NULL); sigaction(SIGRTMIN + 2, &sa, NULL);
  kill(getpid(), SIGUSR1); printf("kill %d code %d pid %d uid %d\n", count, code, pidok, uidok);
  raise(SIGUSR1); printf("raise %d code %d\n", count, code);
  sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 42}); printf("queue %d val %d code %d\n", count, val, code);
  sigset_t m, old; sigemptyset(&m); sigaddset(&m, SIGUSR1); sigaddset(&m, SIGRTMIN + 2); sigprocmask(SIG_BLOCK, &m, &old);
  for (int i = 0; i < 3; i++) { raise(SIGUSR1); sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i}); }
  printf("blocked %d pending %x\n", count, pend()); sigprocmask(SIG_SETMASK, &old, NULL); printf("unblocked %d pending %x val %d\n", count, pend(), val);
  sigprocmask(SIG_BLOCK, &m, NULL); raise(SIGUSR1); int r = sigsuspend(&old); printf("suspend %d %d %d\n", r, errno == EINTR, count);
  sigset_t w; sigemptyset(&w); sigaddset(&w, SIGUSR1); raise(SIGUSR1); int got = 0; sigwait(&w, &got); printf("sigwait %d %d\n", got == SIGUSR1, count);
  int fd = signalfd(-1, &w, 0); raise(SIGUSR1); struct signalfd_siginfo si; ssize_t k = read(fd, &si, sizeof si); printf("signalfd %zd %u %d\n", k, si.ssi_signo, count); close(fd);
  memset(&sa, 0, sizeof sa); sa.sa_handler = nest; sa.sa_flags = SA_NODEFER; sigaction(SIGUSR2, &sa, NULL); raise(SIGUSR2); printf("nodefer depth %d\n", maxd);
  maxd = total = 0; sa.sa_flags = 0; sigaction(SIGUSR2, &sa, NULL); raise(SIGUSR2); printf("defer depth %d\n", maxd);
  sa.sa_flags = SA_RESETHAND; sigaction(SIGUSR2, &sa, NULL); raise(SIGUSR2); struct sigaction o; sigaction(SIGUSR2, NULL, &o); printf("reset %d\n", o.sa_handler == SIG_DFL);
  sigaction(SIGUSR1, NULL, &o); printf("query handler %d flags %x\n", o.sa_sigaction == info, o.sa_flags & 0xfffffff);
  stack_t st; sigaltstack(NULL, &st); printf("altstack flags %d size %zu\n", st.ss_flags, st.ss_size);
  for (int i = 1; i < 32; i++) { sigaction(i, NULL, &o); printf("%d", o.sa_handler == SIG_DFL ? 0 : o.sa_handler == SIG_IGN ? 1 : 2); } puts("");
  sigprocmask(0, NULL, &m); for (int i = 1; i < 65; i++) printf("%d", sigismember(&m, i)); puts("");
}
