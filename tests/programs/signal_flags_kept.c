// build: -O2
// Flags of dispositions that do not exist: the kernel forgets them, and programs ask so for those that do (SA_UNSUPPORTED).
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
struct action { unsigned long handler, flags, restorer, mask; };
static void on(int s) {}
int main(void) {
  const int signals[] = {SIGUSR1, SIGSEGV, SIGTRAP, SIGRTMIN};
  for (int s = 0; s < 4; s++)
    for (int how = 0; how < 2; how++) {
      unsigned long kept = 0, again = 0;
      for (int bit = 0; bit < 64; bit++) {
        struct action a = {how ? (long)on : 1, 1ul << bit, 0, 0}, read = {0}, old = {0}, none = {0};
        syscall(SYS_rt_sigaction, signals[s], &a, 0, 8); syscall(SYS_rt_sigaction, signals[s], 0, &read, 8);
        syscall(SYS_rt_sigaction, signals[s], &none, &old, 8);
        kept |= read.flags; again |= old.flags;
      }
      printf("%d %d: %lx %lx\n", signals[s], how, kept, again);
    }
}
