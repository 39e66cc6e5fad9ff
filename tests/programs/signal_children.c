// build: -O2
// SIGCHLD in all its forms with waitpid, SA_NOCLDSTOP, SA_NOCLDWAIT, an ignored SIGCHLD; children stopped and continued; SIGPIPE; a
// process that stops itself and is continued while it waits; signals ignored and masks inherited through exec.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int n, code[8], status; static volatile pid_t from;
static void h(int s, siginfo_t *i, void *c) { (void)s; (void)c; n++; if (i->si_code >= 0 && i->si_code < 8) code[i->si_code]++; status = i->si_status; from = i->si_pid; }
static void handle(int flags) { struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = h; sa.sa_flags = SA_SIGINFO | flags; sigaction(SIGCHLD, &sa, NULL); n = 0; memset((void *)code, 0, sizeof code); }
static void until(int what) { for (int k = 0; k < 2000 && n < what; k++) usleep(1000); }
static void idle(void) { struct timespec t = {10, 0}; nanosleep(&t, NULL); }
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0); pid_t c; int s;
  if (argc > 1) { sigset_t m; sigprocmask(0, NULL, &m); struct sigaction a; printf("exec:"); for (int i = 1; i < 32; i++) { sigaction(i, NULL, &a); printf("%d%d ", a.sa_handler == SIG_DFL ? 0 : a.sa_handler == SIG_IGN ? 1 : 2, sigismember(&m, i)); } puts(""); return 0; }
  handle(SA_RESTART); if (!(c = fork())) _exit(7); printf("exit %d", waitpid(c, &s, 0) == c && WEXITSTATUS(s) == 7); until(1); printf(" seen %d code %d status %d from %d\n", n, code[CLD_EXITED], status, from == c);
  handle(SA_RESTART); if (!(c = fork())) { idle(); _exit(0); } kill(c, SIGKILL); printf("kill %d", waitpid(c, &s, 0) == c && WIFSIGNALED(s)); until(1); printf(" seen %d code %d status %d\n", n, code[CLD_KILLED], status);
  handle(SA_RESTART); if (!(c = fork())) { idle(); _exit(0); } kill(c, SIGSTOP); printf("stop %d", waitpid(c, &s, WUNTRACED) == c && WIFSTOPPED(s)); until(1); printf(" seen %d code %d\n", n, code[CLD_STOPPED]);
  kill(c, SIGCONT); printf("cont %d", waitpid(c, &s, WCONTINUED) == c && WIFCONTINUED(s)); until(2); printf(" seen %d code %d\n", n, code[CLD_CONTINUED]); kill(c, SIGTERM); waitpid(c, &s, 0);
  handle(SA_RESTART | SA_NOCLDSTOP); if (!(c = fork())) { idle(); _exit(0); } kill(c, SIGSTOP); waitpid(c, &s, WUNTRACED); usleep(20000); printf("nocldstop %d\n", n); kill(c, SIGKILL); waitpid(c, &s, 0);
  handle(SA_RESTART | SA_NOCLDWAIT); if (!(c = fork())) _exit(3); until(1); errno = 0; printf("nocldwait %d %d %d\n", n, waitpid(c, &s, 0), errno == ECHILD);
  signal(SIGCHLD, SIG_IGN); if (!(c = fork())) _exit(3); errno = 0; printf("ignored %d %d\n", waitpid(c, &s, 0), errno == ECHILD);
  handle(0); for (int k = 0; k < 20; k++) if (!fork()) { usleep(1000 * (k % 5)); _exit(k); } int sum = 0, got = 0; while (got < 20) { while ((c = waitpid(-1, &s, WNOHANG)) > 0) got++, sum += WEXITSTATUS(s); if (got < 20) usleep(500); } printf("twenty %d %d\n", got, sum);
  // It stops itself; a child continues it while it is in poll, which goes on.
  signal(SIGCHLD, SIG_DFL); pid_t me = getpid(); if (!(c = fork())) { usleep(100000); kill(me, SIGCONT); _exit(0); } raise(SIGSTOP); printf("on\n"); waitpid(c, &s, 0);
  if (!(c = fork())) { usleep(30000); kill(me, SIGSTOP); usleep(30000); kill(me, SIGCONT); _exit(0); } errno = 0; struct pollfd pf = {-1, 0, 0}; int r = poll(&pf, 1, 150); printf("poll over a stop %d %d\n", r, r < 0 ? errno : 0); waitpid(c, &s, 0);
  int p[2]; if (pipe(p)) return 2; close(p[0]); signal(SIGPIPE, SIG_IGN); errno = 0; printf("pipe %zd %d\n", write(p[1], "x", 1), errno == EPIPE); if (!(c = fork())) { signal(SIGPIPE, SIG_DFL); if (write(p[1], "x", 1)) {} _exit(0); } waitpid(c, &s, 0); printf("sigpipe %d\n", WIFSIGNALED(s) ? WTERMSIG(s) : -1);
  signal(SIGSEGV, SIG_IGN); signal(SIGUSR1, SIG_IGN); handle(0); sigset_t m; sigemptyset(&m); sigaddset(&m, SIGUSR2); sigaddset(&m, SIGTRAP); sigaddset(&m, SIGHUP); sigprocmask(SIG_SETMASK, &m, NULL); execl("/proc/self/exe", argv[0], "again", NULL); return 9;
}
