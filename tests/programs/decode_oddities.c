// build: -O2 | -O2 -no-pie
// Overlapping instructions, 66-prefixed branches and nops, long nops, rip-relative operands with immediates, locks, checksum of own text.
#include <stdio.h>
long overlap(long n), riprel(long n), prefixed(long n);
extern const unsigned char text_end[], text_start[];
__asm__(".data\n.balign 64\ncell: .quad 5,6,7,8,9,10,11,12\n.text\n.globl overlap,riprel,prefixed,text_start,text_end\ntext_start:\n"
"overlap: xor %eax,%eax\n test %rdi,%rdi\n jz 1f+1\n1: .byte 0xb8\n add $1,%al\n nop\n nop\n ret\n"   // mov eax,imm32 = add al,1; nop; nop
"riprel: movl $77,cell(%rip)\n addq $1000,cell+8(%rip)\n imul $9,cell+16(%rip),%rax\n lock cmpxchg %rdi,cell+24(%rip)\n lock xadd %rdi,cell+32(%rip)\n cmpb $3,cell+40(%rip)\n setne %cl\n movzbl %cl,%ecx\n testw $0x101,cell+48(%rip)\n lea (%rax,%rcx),%rax\n"
" vmovdqu cell(%rip),%xmm0\n vpinsrq $1,cell+8(%rip),%xmm0,%xmm0\n vpshufd $0x4e,cell+16(%rip),%xmm1\n vpaddq %xmm0,%xmm1,%xmm1\n vpextrq $1,%xmm1,%rdx\n shldq $3,%rdi,cell+32(%rip)\n bts $5,cell+40(%rip)\n xor cell+24(%rip),%rax\n add %rdx,%rax\n add cell+32(%rip),%rax\n cmpxchg16b cell+48(%rip)\n sub cell+48(%rip),%rax\n ret\n"
"prefixed: xor %eax,%eax\n .byte 0x2e\n jmp 1f\n1: .byte 0x3e\n test %rdi,%rdi\n .byte 0x2e\n jz 2f\n inc %eax\n2: .byte 0x66,0x66,0x2e,0x0f,0x1f,0x84,0,0,2,0,0\n .byte 0x66,0x90,0xf3,0x90\n .byte 0xf2\n call 3f\n .byte 0x66,0x66,0x48\n call 3f\n ret\n3: add $10,%eax\n .byte 0xf3\n ret\n"
"text_end:\n");
int main(void) {
  for (long i = 0; i < 20; i++) printf("%lx %lx %ld\n", overlap(i & 1), riprel(i * 12345), prefixed(i & 1));
  unsigned h = 1; for (const unsigned char *p = text_start; p < text_end - 200; p++) h = h * 31 + *p; printf("%d\n", h != 0);
}
