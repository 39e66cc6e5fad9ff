// build: -O2 -w -pthread | -O2 -w -static
// Children that ask to be traced: their tracer sees the program's own addresses at breakpoints, faults, steps and system calls, and what it pokes is executed.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
extern char at_trap[], at_fault[], at_poke[], at_call[];
static struct user_regs_struct r;
static void regs(int p) { ptrace(PTRACE_GETREGS, p, 0, &r); }
static void __attribute__((noipa)) work(void) {
  __asm__ volatile("mov $0x1234,%%eax\nat_trap: int3\n mov $8,%%ecx\nat_fault: mov (%%rcx),%%rdx\nat_poke: mov $1,%%edi\n mov $39,%%eax\nat_call: syscall\n" ::: "rax", "rcx", "rdx", "rdi", "r11", "memory");
}
static int wait_for(int p) { int s = 0; waitpid(p, &s, 0); return s; }
static void trace(const char *what, int p) {
  printf("%s\nstopped %#x\n", what, wait_for(p)); ptrace(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  ptrace(PTRACE_CONT, p, 0, 0); int s = wait_for(p); regs(p); printf("breakpoint %#x at %lld, rax %#llx\n", s, r.rip - (long long)at_trap, r.rax);
  ptrace(PTRACE_CONT, p, 0, 0); s = wait_for(p); regs(p); printf("fault %#x at %lld, rcx %lld\n", s, r.rip - (long long)at_fault, r.rcx);
  r.rip = (long)at_poke; ptrace(PTRACE_SETREGS, p, 0, &r); errno = 0; long word = ptrace(PTRACE_PEEKTEXT, p, at_poke, 0); ptrace(PTRACE_POKETEXT, p, at_poke, word & ~0xff00L | 7 << 8);
  for (int i = 0; i < 2; i++) { ptrace(PTRACE_SINGLESTEP, p, 0, 0); s = wait_for(p); regs(p); printf("step %#x at %lld, rdi %lld\n", s, r.rip - (long long)at_poke, r.rdi); }
  ptrace(PTRACE_SYSCALL, p, 0, 0); s = wait_for(p); regs(p); printf("call %#x at %lld, number %lld\n", s, r.rip - (long long)at_call, r.orig_rax);
  ptrace(PTRACE_CONT, p, 0, 0); printf("end %#x\n", wait_for(p));
}
static void *thread(void *x) { for (;;) pause(); return x; }
int main(void) {
  int p = fork(); if (!p) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); work(); _exit(7); } trace("a child", p);
  p = fork(); if (!p) { for (volatile int i = 0; i < 100000; i++); ptrace(PTRACE_TRACEME, 0, 0, 0); kill(getpid(), SIGSTOP); work(); _exit(8); } trace("one that has worked", p);
  fflush(stdout); p = fork(); if (!p) { int q = fork(); if (!q) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); work(); _exit(9); } trace("a grandchild", q); fflush(stdout); _exit(0); }
  printf("middle %#x\n", wait_for(p));
  p = fork(); if (!p) { ptrace(PTRACE_TRACEME, 0, 0, 0); execl("/bin/true", "true", (char *)0); _exit(1); } printf("exec %#x\n", wait_for(p)); ptrace(PTRACE_CONT, p, 0, 0); printf("end %#x\n", wait_for(p));
}
