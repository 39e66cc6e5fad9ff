// build: -O2
// A blocking read is interrupted (EINTR) without SA_RESTART and goes on with it; so do nanosleep and select.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static int p[2]; static volatile int n, feed;
static void h(int s) { (void)s; n++; if (feed && n >= 3) { if (write(p[1], "x", 1) != 1) n = -100; } }
static void arm(long us) { struct itimerval t = {{0, us}, {0, us}}; setitimer(ITIMER_REAL, &t, NULL); }
int main(void) {
  char c = 0; if (pipe(p)) return 2; struct sigaction sa = {.sa_handler = h};
  sigaction(SIGALRM, &sa, NULL); arm(10000); ssize_t r = read(p[0], &c, 1); int e = errno; arm(0); printf("read %zd eintr %d\n", r, e == EINTR);
  n = 0; feed = 1; sa.sa_flags = SA_RESTART; sigaction(SIGALRM, &sa, NULL); arm(10000); r = read(p[0], &c, 1); arm(0); printf("read %zd %c\n", r, c);
  feed = 0; struct timespec t = {5, 0}, rem; arm(10000); int q = nanosleep(&t, &rem); e = errno; arm(0); printf("nanosleep %d eintr %d rem %d\n", q, e == EINTR, rem.tv_sec == 4);
  fd_set f; FD_ZERO(&f); struct timeval tv = {5, 0}; arm(10000); q = select(0, &f, NULL, NULL, &tv); e = errno; arm(0); printf("select %d eintr %d\n", q, e == EINTR);
  arm(10000); q = pause(); e = errno; arm(0); printf("pause %d eintr %d\n", q, e == EINTR);
}
