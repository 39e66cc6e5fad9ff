// Signals that instructions cause, sent by others: held back with everything else and released one by one, each in its turn; and none delivered while it is blocked.
// build: -O2 -pthread | -O0 -static -pthread
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int got[32], order[64], n; static const int five[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGUSR1};
static void handler(int s) { got[s]++; if (n < 64) order[n++] = s; }
static void release(int first, int step) {
  char x; int a[2], b[2]; if (pipe(a) || pipe(b)) _exit(2); pid_t k = fork();
  if (!k) { sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, NULL); if (write(a[1], "x", 1) != 1 || read(b[0], &x, 1) != 1) _exit(3);
    for (int i = 0, s = first; i < 31; i++, s += step) { sigset_t one; sigemptyset(&one); sigaddset(&one, s); sigprocmask(SIG_UNBLOCK, &one, NULL); }
    for (int i = 0; i < n; i++) printf("%d ", order[i]); printf("\n"); for (int s = 1; s < 32; s++) printf("%d", got[s]); printf("\n"); fflush(stdout); _exit(4); }
  if (read(a[0], &x, 1) != 1) _exit(5); for (int s = 1; s < 32; s++) if (s != SIGKILL && s != SIGSTOP) kill(k, s); if (write(b[1], "x", 1) != 1) _exit(6);
  int st; waitpid(k, &st, 0); printf("%#x\n", st); }
static volatile int stop; static pid_t main_tid;
static void *sender(void *p) { sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, NULL); for (unsigned i = 0; !stop; i++) { int s = five[i % 6]; if (i & 8) kill(getpid(), s); else syscall(SYS_tgkill, getpid(), main_tid, s); if (i % 3 == 0) usleep(20); } return p; }
static int __attribute__((noinline)) work(int x) { for (int i = 0; i < 300; i++) x = x * 31 + (x >> 3) + i; return x; }
int main(void) {
  setvbuf(stdout, NULL, _IOFBF, 1 << 16); struct sigaction a = {.sa_handler = handler}; sigfillset(&a.sa_mask); for (int s = 1; s < 32; s++) sigaction(s, &a, NULL);
  fflush(stdout); release(1, 1); fflush(stdout); release(31, -1); fflush(stdout);
  main_tid = syscall(SYS_gettid); memset((void *)got, 0, sizeof got); pthread_t t; pthread_create(&t, NULL, sender, NULL); sigset_t some; int wrong = 0, x = 1, all = 0;
  for (int r = 0; r < 4000 || (!all && r < 4000000); r++) { all = 1; for (int i = 0; i < 6; i++) all &= got[five[i]] > 0; sigemptyset(&some); for (int i = 0; i < 6; i++) if (r >> i & 1) sigaddset(&some, five[i]); sigprocmask(SIG_BLOCK, &some, NULL); int before[6]; for (int i = 0; i < 6; i++) before[i] = got[five[i]];
    x = work(x); getppid(); for (int i = 0; i < 6; i++) wrong += (r >> i & 1) && before[i] != got[five[i]]; sigprocmask(SIG_UNBLOCK, &some, NULL); x = work(x); }
  stop = x | 1; pthread_join(t, NULL); printf("wrong %d, all %d\n", wrong, all); return 7; }
