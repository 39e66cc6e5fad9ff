// A thread is let go while another waits in the kernel, and installs handlers for traps and all else, as emulators do when they start; the one that waited comes back
// to what the process is now. Each handler is called for its own signals and no other, and all are there in the end.
// build: -O2 -pthread
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static atomic_int traps, others; static int pipes[2][2]; static _Thread_local int mine;
static void on_trap(int s, siginfo_t *i, void *c) { (void)c; (void)i; if (s != SIGTRAP) _exit(70); if (!mine) _exit(71); mine--; traps++; }
static void on_other(int s) { (void)s; others++; }
static void trap(void) { mine++; __asm__ volatile("int3" ::: "memory"); if (mine) _exit(72); }
static void *waiter(void *p) {
  int n = (int)(long)p; char c; while (read(pipes[n][0], &c, 1) != 1) ; trap();
  unsigned long x = 1; for (int i = 0; i < 100000; i++) x = x * 6364136223846793005u + (x >> 60 & 1);
  raise(SIGUSR1); return (void *)(x | 1);
}
int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0); pthread_t t[2]; void *r;
  for (long i = 0; i < 2; i++) { if (pipe(pipes[i])) return 1; pthread_create(&t[i], NULL, waiter, (void *)i); }
  usleep(20000);
  struct sock_filter code[] = { { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } }; struct sock_fprog prog = { 1, code };
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); printf("filter %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
  struct sigaction sa; memset(&sa, 0, sizeof sa);
  for (int s = 1; s <= 64; s++) { if (s == SIGKILL || s == SIGSTOP || s == SIGTRAP || s == SIGSEGV || s == 32 || s == 33) continue; sa.sa_handler = on_other; sa.sa_flags = SA_RESTART; sigaction(s, &sa, NULL); }
  sa.sa_sigaction = on_trap; sa.sa_flags = SA_SIGINFO | SA_RESTART; sigaction(SIGTRAP, &sa, NULL);
  trap(); printf("alone %d\n", traps);
  for (int i = 0; i < 2; i++) {
    if (write(pipes[i][1], "x", 1) != 1) return 1;
    pthread_join(t[i], &r); trap(); printf("behind %d: %d %d %d\n", i, r != NULL, traps, others);
  }
  struct sigaction is; sigaction(SIGTRAP, NULL, &is); printf("its own %d\n", is.sa_sigaction == on_trap && (is.sa_flags & ~0x04000000) == (SA_SIGINFO | SA_RESTART));
  sigaction(SIGUSR1, NULL, &is); printf("its own %d\n", is.sa_handler == on_other);
}
