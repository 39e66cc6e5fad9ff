// build: -O1 -fno-optimize-sibling-calls
// Endless recursion: SIGSEGV handled on an alternate stack, si_code printed, left by siglongjmp, twice.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
static sigjmp_buf jb; static volatile int code, on;
static void h(int s, siginfo_t *i, void *u) { (void)s; (void)u; stack_t t; sigaltstack(NULL, &t); on = t.ss_flags & SS_ONSTACK; code = i->si_code; siglongjmp(jb, 1); }
static __attribute__((noinline)) int over(int n) { volatile char b[256]; b[0] = (char)n; return over(n + 1) + b[0]; }
int main(void) {
  stack_t st = {.ss_sp = malloc(65536), .ss_size = 65536}; sigaltstack(&st, NULL);
  struct sigaction sa = {.sa_sigaction = h, .sa_flags = SA_SIGINFO | SA_ONSTACK}; sigaction(SIGSEGV, &sa, NULL);
  for (volatile int k = 0; k < 2; k++) { if (!sigsetjmp(jb, 1)) over(0); else printf("overflow %d code %d on %d\n", k, code, on); }
  sigaltstack(NULL, &st); printf("size %zu flags %d\n", st.ss_size, st.ss_flags);
}
