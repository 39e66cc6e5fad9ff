// build: -O2 | -O2 -no-pie | -O2 -static
// A handler reads and modifies the ucontext: faulting instructions are skipped, registers changed, rip moved.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
static volatile int n; static volatile unsigned long rbx, addr; static volatile int code, trapno;
extern char fault_at[], after_fault[], ill_at[];
static volatile int at_fault;
static void h(int s, siginfo_t *i, void *c) {
  greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs; n++; rbx = g[REG_RBX]; addr = (unsigned long)i->si_addr; code = i->si_code; trapno = (int)g[REG_TRAPNO];
  at_fault = g[REG_RIP] == (greg_t)(s == SIGSEGV ? fault_at : ill_at);
  if (s == SIGSEGV) g[REG_RIP] += 3; else g[REG_RIP] += 2;   // mov (%rax),%rcx is 3 bytes; ud2 is 2
  g[REG_RCX] = 0x1000 + n; g[REG_EFL] |= 1; }
int main(void) {
  struct sigaction sa = {.sa_sigaction = h, .sa_flags = SA_SIGINFO}; sigaction(SIGSEGV, &sa, NULL); sigaction(SIGILL, &sa, NULL);
  for (unsigned long k = 1; k <= 5; k++) {
    unsigned long cx, cf;
    __asm__ volatile("mov %2,%%rbx\n clc\n .globl fault_at\nfault_at: mov (%%rax),%%rcx\n .globl after_fault\nafter_fault: mov $0,%%edx\n setc %%dl\n" : "=&c"(cx), "=&d"(cf) : "r"(k * 0x1111), "a"(k * 8) : "rbx", "cc");
    printf("segv cx %lx cf %lu rbx %lx addr %lx code %d trap %d at %d\n", cx, cf, rbx, addr, code, trapno, at_fault);
  }
  unsigned long cx; __asm__ volatile(".globl ill_at\nill_at: ud2\n" : "=c"(cx));
  printf("ill cx %lx code %d trap %d at %d self %d n %d\n", cx, code, trapno, at_fault, addr == (unsigned long)ill_at, n);
}
