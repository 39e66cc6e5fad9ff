// build: -O2 -static -w | -O2 -w
// Code in a section that may be written, beside data: code that changes its own constants, branches, calls and loads as it runs.
#include <stdio.h>
extern volatile long counters[64];
long steps(long n), patched(long a, long n);
extern unsigned char patch_constant[], patch_branch[], patch_call[], patch_load[], target_a[], target_b[], loop_exchange[];
__asm__(".section .code,\"awx\",@progbits\n"
// A loop that counts in memory beside it, and changes the constant it adds.
".globl steps\nsteps: xor %eax,%eax\n"
"1: incl steps_count(%rip)\n mov %edi,2f+1(%rip)\n"
"2: mov $0,%edx\n add %rdx,%rax\n mov steps_count(%rip),%ecx\n add %rcx,%rax\n"
".globl loop_exchange\nloop_exchange: mov $5,%esi\n xchg %esi,loop_exchange+1(%rip)\n add %rsi,%rax\n incl loop_exchange+1(%rip)\n"
" dec %rdi\n jnz 1b\n ret\n"
"steps_count: .long 0\n"
".globl patched\npatched: push %rbx\n push %r12\n mov %rdi,%rbx\n mov %rsi,%r12\n"
"1: .globl patch_constant\npatch_constant: add $1,%rbx\n test $3,%bl\n"
".globl patch_branch\npatch_branch: jz 3f\n"
".globl patch_call\npatch_call: call target_a\n"
"3: .globl patch_load\npatch_load: mov counters_here(%rip),%rcx\n add %rcx,%rbx\n"
" dec %r12\n jnz 1b\n mov %rbx,%rax\n pop %r12\n pop %rbx\n ret\n"
".p2align 6\n.globl target_a\ntarget_a: add $7,%rbx\n ret\n"
".p2align 6\n.globl target_b\ntarget_b: xor $9,%rbx\n incq counters_here+8(%rip)\n ret\n"
"counters_here: .quad 3, 5, 7, 9\n"
".globl counters\ncounters: .zero 512\n"
".text\n");
int main(void) {
  long s = 0;
  for (int i = 1; i < 60; i++) {
    s = s * 31 + steps(i % 9 + 1);
    counters[i]++;
  }
  printf("%lx\n", s);
  for (int i = 0; i < 200; i++) {
    patch_constant[3] = i & 0x3f;
    patch_branch[0] = i & 1 ? 0x74 : 0x75;                                        // jz, jnz
    *(volatile int *)(patch_call + 1) = (i & 2 ? target_a : target_b) - (patch_call + 5);
    *(volatile int *)(patch_load + 3) += i & 4 ? 8 : i > 8 ? -8 : 0;
    if (i % 8 == 7) *(volatile int *)(patch_load + 3) -= 8 * (i > 8 ? 0 : 4);
    s = s * 31 + patched(i, 12);
    counters[i & 63] += s & 1;
  }
  printf("%lx %ld\n", s, counters[3]);
}
