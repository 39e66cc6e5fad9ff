// build: -O2 | -O0 | -O2 -static | -O2 -no-pie
// setjmp/longjmp through many frames, repeatedly; sigsetjmp restoring the mask.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static jmp_buf jb; static sigjmp_buf sj;
static __attribute__((noinline)) int down(int n, int r) { if (!n) longjmp(jb, r); int v = down(n - 1, r) + 1; __asm__ volatile("" : "+r"(v)); return v; }
int main(void) {
  volatile long s = 0; volatile int i;
  for (i = 1; i <= 300; i++) { int r = setjmp(jb); if (!r) down(i * 5, i); s += r; }
  printf("%ld\n", s);
  sigset_t set, old; sigemptyset(&set); sigaddset(&set, SIGUSR1);
  volatile int k = 0; int r = sigsetjmp(sj, 1); k++;
  sigprocmask(SIG_BLOCK, NULL, &old); printf("%d %d %d\n", r, k, sigismember(&old, SIGUSR1));
  if (k < 4) { sigprocmask(SIG_BLOCK, &set, NULL); siglongjmp(sj, k * 10); }
}
