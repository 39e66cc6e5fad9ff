// build: -O2 | -O2 -static
// A program that becomes itself again and again, and fails to become others in between, while signals come for it that are ignored by default: with a handler, ignored, blocked. Each image has the mask and the ignored signals of the one before.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long got;
static void on(int s) { (void)s; got++; }
static int image(int n, char *self) {
  sigset_t now, next; struct sigaction a; char text[16], *argv[] = {self, text, 0}, *environment[] = {0}; int wrong = 0;
  /* What the image before has left: SIGWINCH blocked in every third, SIGCHLD ignored in every other. */
  if (n < 30) {
    sigprocmask(SIG_BLOCK, 0, &now);
    wrong += sigismember(&now, SIGWINCH) != (n % 3 == 0) || sigismember(&now, SIGURG) || sigismember(&now, SIGUSR1);
    sigaction(SIGCHLD, 0, &a); wrong += (a.sa_handler == SIG_IGN) != (n % 2 == 0);
    sigaction(SIGURG, 0, &a); wrong += a.sa_handler != SIG_DFL;
  }
  if (wrong) { printf("image %d is wrong\n", n); return 1; }
  memset(&a, 0, sizeof a); a.sa_handler = on; a.sa_flags = n % 2 ? SA_RESTART : 0;
  sigaction(SIGURG, &a, 0); sigaction(SIGWINCH, &a, 0);
  if (n == 0) return 7;
  execve("/no/such/program", argv, environment); wrong += errno != ENOENT;
  execve("/etc/passwd", argv, environment); wrong += errno != EACCES;
  if (wrong) return 2;
  a.sa_handler = (n - 1) % 2 == 0 ? SIG_IGN : SIG_DFL; sigaction(SIGCHLD, &a, 0);
  sigemptyset(&next); if ((n - 1) % 3 == 0) sigaddset(&next, SIGWINCH); sigprocmask(SIG_SETMASK, &next, 0);
  snprintf(text, sizeof text, "%d", n - 1);
  execve("/proc/self/exe", argv, environment);
  return 3;
}
int main(int argc, char **argv) {
  if (argc > 1) return image(atoi(argv[1]), argv[0]);
  int status; pid_t child = fork();
  if (child == 0) return image(30, argv[0]);
  for (long n = 0; waitpid(child, &status, WNOHANG) == 0; n++) {
    kill(child, SIGURG); kill(child, SIGWINCH); kill(child, n % 4 ? SIGURG : SIGCHLD);
    if (n % 16 == 0) usleep(300);
  }
  printf("%d\n", status);
}
