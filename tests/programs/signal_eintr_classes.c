// build: -O2
// Every class of blocking call, interrupted with and without SA_RESTART: what it answers, and how much it had done.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <linux/futex.h>
#include <time.h>
#include <unistd.h>
static volatile int n; static int p[2], full[2], sv[2], timed[2], ev, ep, q, sem, lockfd, child, tfd; static volatile int word;
static timer_t timer;
static void arm(long us) { struct itimerspec t = {{0, us * 1000}, {0, us * 1000}}; timer_settime(timer, 0, &t, NULL); }
enum { AFTER = 4 };
static int what;
// After some interruptions what is waited for happens, so that a restarted call ends.
static void h(int s) { (void)s; int keep = errno; n++; if (n == AFTER) { char c = 'x', b[65536];
  switch (what) {
  case 0: if (write(p[1], &c, 1) != 1) n = -100; break;
  case 1: if (read(full[0], b, sizeof b) < 1) n = -100; break;
  case 2: case 3: if (write(sv[1], &c, 1) != 1) n = -100; break;
  case 5: { unsigned long one = 1; if (write(ev, &one, 8) != 8) n = -100; break; }
  case 6: word = 1; syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0); break;
  case 9: kill(child, SIGKILL); break;
  case 12: { struct { long type; char t[4]; } m = {1, "m"}; if (msgsnd(q, &m, 1, IPC_NOWAIT)) n = -100; break; }
  case 13: { struct sembuf o = {0, 1, IPC_NOWAIT}; if (semop(sem, &o, 1)) n = -100; break; }
  case 14: kill(child, SIGUSR1); break;
  }}
  errno = keep; }
static const char *names[] = {"read pipe", "write pipe", "recv", "recv with a timeout", "poll", "read eventfd", "futex", "nanosleep", "clock_nanosleep until", "waitpid", "epoll_wait", "select", "msgrcv", "semop", "flock", "pause", "sigtimedwait", "futex with a timeout", "read timerfd", "semtimedop", "accept"};
static long call(int w, struct timespec *rem) {
  char b[8]; static char big[1 << 20]; struct timespec t = {0, 200000000}; struct pollfd pf = {p[0], POLLIN, 0}; struct epoll_event e; struct timeval tv = {0, 200000}; fd_set f; FD_ZERO(&f);
  switch (w) {
  case 0: return read(p[0], b, 1);
  case 1: return write(full[1], big, 70000);
  case 2: return recv(sv[0], b, 1, 0);
  case 3: return recv(timed[0], b, 1, 0);
  case 4: return poll(&pf, 1, 200);
  case 5: return read(ev, b, 8);
  case 6: return syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
  case 7: return nanosleep(&t, rem);
  case 8: { struct timespec u; clock_gettime(CLOCK_MONOTONIC, &u); u.tv_nsec += 200000000; if (u.tv_nsec >= 1000000000) u.tv_sec++, u.tv_nsec -= 1000000000; int r = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &u, rem); errno = r; return r ? -1 : 0; }
  case 9: { int s; int r = waitpid(child, &s, 0); return r == child ? WTERMSIG(s) : r; }
  case 10: return epoll_wait(ep, &e, 1, 200);
  case 11: return select(0, &f, NULL, NULL, &tv);
  case 12: { struct { long type; char t[4]; } m; return msgrcv(q, &m, 4, 0, 0); }
  case 13: { struct sembuf o = {0, -1, 0}; return semop(sem, &o, 1); }
  case 14: return flock(lockfd, LOCK_EX);
  case 15: return pause();
  case 16: { sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR2); return sigtimedwait(&s, NULL, &t); }
  case 17: return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, NULL, 0);
  case 18: { struct itimerspec s = {{0, 0}, {0, 200000000}}; timerfd_settime(tfd, 0, &s, NULL); return read(tfd, b, 8); }
  case 19: { struct sembuf o = {0, -1, 0}; return semtimedop(sem, &o, 1, &t); }
  }
  return 0; }
int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0); struct sigevent se = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM}; timer_create(CLOCK_MONOTONIC, &se, &timer);
  for (int restart = 0; restart < 2; restart++) for (what = 0; what < 20; what++) {
    if (pipe(p) || pipe(full) || socketpair(AF_UNIX, SOCK_STREAM, 0, sv) || socketpair(AF_UNIX, SOCK_STREAM, 0, timed)) return 2;
    struct timeval limit = {0, 200000}; setsockopt(timed[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit); ev = eventfd(0, 0); ep = epoll_create1(0); tfd = timerfd_create(CLOCK_MONOTONIC, 0);
    q = msgget(IPC_PRIVATE, 0600); sem = semget(IPC_PRIVATE, 1, 0600); char path[] = "/tmp/lockXXXXXX"; lockfd = mkstemp(path); word = 0; n = 0; child = 0;
    struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_handler = h; sa.sa_flags = restart ? SA_RESTART : 0; sigaction(SIGALRM, &sa, NULL);
    int up[2]; if (pipe(up)) return 2;
    if (what == 9 || what == 14) { child = fork(); if (!child) { int fd = open(path, O_RDWR); if (flock(fd, LOCK_EX)) _exit(1); sigset_t m; sigemptyset(&m); sigaddset(&m, SIGUSR1); sigprocmask(SIG_BLOCK, &m, NULL); if (write(up[1], "x", 1) != 1) _exit(1); int s; sigwait(&m, &s); _exit(0); } char c; if (read(up[0], &c, 1) != 1) return 3; }
    struct timespec rem = {9, 9}; errno = 0; arm(20000); long r = call(what, &rem); int e = errno; arm(0);
    printf("%s %s: %ld %s, %s%s\n", names[what], restart ? "restarted" : "interrupted", r, r < 0 ? strerror(e) : "", what == 18 ? "" : n == 0 ? "no signal" : n < AFTER ? "few" : "many", what == 7 && r < 0 ? (rem.tv_sec == 0 && rem.tv_nsec < 200000000 ? " rest" : " no rest") : "");
    if (child) { kill(child, SIGKILL); waitpid(child, NULL, 0); } msgctl(q, IPC_RMID, NULL); semctl(sem, 0, IPC_RMID); unlink(path);
    int fds[] = {p[0], p[1], full[0], full[1], sv[0], sv[1], timed[0], timed[1], ev, ep, tfd, lockfd, up[0], up[1]}; for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) close(fds[i]);
  }
}
