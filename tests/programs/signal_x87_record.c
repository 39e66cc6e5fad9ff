// build: -O2 -w | -O2 -w -static
// The x87 unit's record of its last instruction in the frame of a signal: of an exception that is pending, and after other instructions of the program.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
extern char at_divide[], at_root[]; static sigjmp_buf back; static long last; static int code;
static void on_fault(int s, siginfo_t *i, void *c) { struct _libc_fpstate *f = ((ucontext_t *)c)->uc_mcontext.fpregs; last = f->rip; code = i->si_code; siglongjmp(back, s); }
static void divide(void) { unsigned short cw = 0x37b; __asm__ volatile("fninit; fldcw %0; fld1; fldz\n.globl at_divide\nat_divide: fdivrp\nnop; xor %%eax,%%eax; fwait; fninit" ::"m"(cw) : "eax"); }
static void root(void) { unsigned short cw = 0x37e; __asm__ volatile("fninit; fldcw %0; fld1; fchs\n.globl at_root\nat_root: fsqrt\n1: inc %%eax; cmp $5,%%eax; jb 1b; fwait; fninit" ::"m"(cw), "a"(0)); }
int main(void) {
  struct sigaction a; memset(&a, 0, sizeof a); a.sa_sigaction = on_fault; a.sa_flags = SA_SIGINFO; sigaction(SIGFPE, &a, 0);
  for (int n = 0; n < 50; n++) {
    int r = sigsetjmp(back, 1); if (!r) divide(); else if (n == 49 || last != (long)at_divide) printf("divide: signal %d code %d at %ld\n", r, code, last - (long)at_divide);
    r = sigsetjmp(back, 1); if (!r) root(); else if (n == 49 || last != (long)at_root) printf("root: signal %d code %d at %ld\n", r, code, last - (long)at_root);
  }
  __asm__ volatile("fninit");
}
