// build: -O2 | -O2 -no-pie
// push rsp, pop rsp, push [rsp], pop [rsp+8], enter/leave, xchg rsp, call with rsp as address, 16-bit push.
#include <stdio.h>
long stack_ops(long *out);
__asm__(".text\n.globl stack_ops\nstack_ops: push %rbp\n mov %rsp,%rbp\n sub $256,%rsp\n and $-64,%rsp\n mov %rsp,%r8\n"
" push %rsp\n pop %rax\n sub %r8,%rax\n mov %rax,(%rdi)\n"
" mov %rsp,%rax\n push %rax\n pop %rsp\n mov %rsp,%rax\n sub %r8,%rax\n mov %rax,8(%rdi)\n"
" push $11\n push $22\n pushq 8(%rsp)\n pop %rax\n mov %rax,16(%rdi)\n"
" pushq (%rsp)\n popq 8(%rsp)\n mov 8(%rsp),%rax\n mov %rax,24(%rdi)\n mov (%rsp),%rax\n mov %rax,32(%rdi)\n"
" pop %rax\n pop %rcx\n mov %rax,40(%rdi)\n mov %rcx,48(%rdi)\n mov %rsp,%rax\n sub %r8,%rax\n mov %rax,56(%rdi)\n"
" pushw $0x1234\n pushw $0x5678\n pushw $0\n pushw $7\n pop %rax\n mov %rax,64(%rdi)\n"
" enter $32,$0\n mov %rbp,%rax\n sub %rsp,%rax\n mov %rax,72(%rdi)\n leave\n mov %rsp,%rax\n sub %r8,%rax\n mov %rax,80(%rdi)\n"
" lea 64(%rsp),%rdx\n movq $99,64(%rsp)\n xchg %rsp,%rdx\n pop %rax\n mov %rdx,%rsp\n mov %rax,88(%rdi)\n"
" push %rsp\n push (%rsp)\n pop %rax\n pop %rcx\n sub %rcx,%rax\n mov %rax,96(%rdi)\n"
" mov %rbp,%rsp\n pop %rbp\n ret\n");
int main(void) { long o[13] = {0}; for (int i = 0; i < 3; i++) stack_ops(o); for (int i = 0; i < 13; i++) printf("%lx\n", o[i]); }
