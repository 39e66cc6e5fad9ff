// build: -O1 | -O1 -static
// With alignment checks on: aligned loads of all sizes, some through registers that probes take; then loads that are not aligned, whose faults a handler counts and mends.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
static volatile int faults, flagged, codes;
static void on_bus(int sig, siginfo_t *info, void *c) {
  ucontext_t *u = c;
  (void)sig;
  faults++; codes += info->si_code; flagged += (u->uc_mcontext.gregs[REG_EFL] >> 18) & 1;
  u->uc_mcontext.gregs[REG_EFL] &= ~0x40000L;
}
unsigned long sum(const void *at, long times), odd(const void *at);
__asm__(".text\n"
".globl sum\nsum: pushf\n orl $0x40000,(%rsp)\n popf\n xor %eax,%eax\n"
"1: mov (%rdi),%rdx\n add %rdx,%rax\n add 8(%rdi),%rax\n movzwl 16(%rdi),%edx\n add %rdx,%rax\n movslq 20(%rdi),%rdx\n xor %rdx,%rax\n cmp %rax,24(%rdi)\n movb 32(%rdi),%dl\n add %dl,%al\n movq (%rdi),%xmm0\n movq %xmm0,%rcx\n add %rcx,%rax\n dec %rsi\n jnz 1b\n"
" pushf\n pop %rdx\n shr $18,%rdx\n and $1,%edx\n add %rdx,%rax\n pushf\n andl $~0x40000,(%rsp)\n popf\n ret\n"
".globl odd\nodd: xor %eax,%eax\n"
" pushf\n orl $0x40000,(%rsp)\n popf\n mov 1(%rdi),%rdx\n add %rdx,%rax\n"
" pushf\n orl $0x40000,(%rsp)\n popf\n add 3(%rdi),%rax\n"
" pushf\n orl $0x40000,(%rsp)\n popf\n movzwl 5(%rdi),%edx\n add %rdx,%rax\n"
" pushf\n andl $~0x40000,(%rsp)\n popf\n ret\n");
int main(void) {
  static unsigned char m[64] __attribute__((aligned(64)));
  struct sigaction sa;
  for (int i = 0; i < 64; i++) m[i] = i * 37;
  memset(&sa, 0, sizeof sa); sa.sa_sigaction = on_bus; sa.sa_flags = SA_SIGINFO | SA_NODEFER; sigaction(SIGBUS, &sa, 0);
  printf("%lx %d\n", sum(m, 1), faults); printf("%lx %d\n", sum(m, 100), faults);
  for (int i = 0; i < 3; i++) printf("%lx\n", odd(m));
  printf("%d faults, %d with the flag, %d codes\n", faults, flagged, codes);
}
