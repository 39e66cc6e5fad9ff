// build: -O2
// Each signal that a process can handle, sent to the whole process group: by the program, by a child, by a grandchild that its
// parent did not wait for, by sigqueue with a value. The command that started the program must outlive them all.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int seen[65];
static void h(int s) { seen[s]++; }
static int usable(int s) { return s != SIGKILL && s != SIGSTOP && s != SIGTSTP && s != SIGTTIN && s != SIGTTOU && s != SIGCONT && s != SIGCHLD && s != 32 && s != 33; }
static void until(int s, int n) { for (int k = 0; k < 3000 && seen[s] < n; k++) usleep(1000); usleep(500); }
int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  for (int s = 1; s < 65; s++) if (usable(s)) signal(s, h);
  for (int s = 1; s < 65; s++) {
    if (!usable(s)) continue;
    kill(0, s); until(s, 1);
    pid_t c = fork(); if (!c) { signal(s, SIG_IGN); kill(0, s); _exit(0); }
    until(s, 2); while (waitpid(c, NULL, 0) < 0) {}
    c = fork(); if (!c) { signal(s, SIG_IGN); pid_t g = fork(); if (!g) { kill(0, s); _exit(0); } while (waitpid(g, NULL, 0) < 0) {} _exit(0); }
    until(s, 3); while (waitpid(c, NULL, 0) < 0) {}
  }
  int wrong = 0; for (int s = 1; s < 65; s++) if (usable(s) && seen[s] != 3) { printf("signal %d: seen %d\n", s, seen[s]); wrong++; }
  printf("wrong %d\n", wrong); signal(SIGUSR2, SIG_DFL); kill(0, SIGUSR2); for (;;) pause();
}
