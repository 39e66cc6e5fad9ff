// build: -O2 | -O2 -no-pie | -O2 -static-pie
// Arithmetic flags stay live across direct and indirect jumps, calls and returns, in and out.
#include <stdio.h>
unsigned long carry_ret(unsigned long a, unsigned long b), flags_all(unsigned long a, unsigned long b), through(unsigned long a, unsigned long b);
__asm__(".text\n"
"add_set: add %rsi,%rdi\n ret\n"                       // returns flags, not only a value
"nothing: ret\n"
"keep: mov $1,%r10d\n jmp 1f\n ud2\n1: lea 2f(%rip),%r11\n jmp *%r11\n ud2\n2: ret\n"
".globl carry_ret\ncarry_ret: xor %eax,%eax\n call add_set\n adc $100,%rax\n call add_set\n lea add_set(%rip),%rdx\n call *%rdx\n setc %cl\n movzbl %cl,%ecx\n seto %dl\n movzbl %dl,%edx\n sets %sil\n movzbl %sil,%esi\n shl $8,%rcx\n shl $9,%rdx\n shl $10,%rsi\n or %rcx,%rax\n or %rdx,%rax\n or %rsi,%rax\n ret\n"
".globl flags_all\nflags_all: cmp %rsi,%rdi\n call nothing\n lea keep(%rip),%rdx\n call *%rdx\n push %rdx\n lea (%rsp),%rsp\n call keep\n pop %rdx\n pushf\n pop %rax\n and $0x8d5,%eax\n ret\n"
"tbl: .quad 0\n"
".globl through\nthrough: sub %rsi,%rdi\n lahf\n mov %rax,%r8\n seto %r9b\n jmp 1f\n2: ja 3f\n mov $1,%eax\n jmp 4f\n1: jmp 2b\n3: mov $2,%eax\n4: jo 5f\n jns 6f\n add $10,%eax\n jmp 6f\n5: add $20,%eax\n6: cmpb $0,%r9b\n je 7f\n add $40,%eax\n7: shr $8,%r8\n and $0xd5,%r8d\n shl $8,%r8\n or %r8,%rax\n movzwl %ax,%eax\n ret\n");
int main(void) {
  unsigned long v[] = {0, 1, 2, 0x7f, 0x80, 0x7fffffffffffffff, 0x8000000000000000, ~0ul, ~0ul - 1, 0x123456789abcdef};
  for (int i = 0; i < 10; i++) for (int j = 0; j < 10; j++)
    printf("%lx %lx %lx\n", carry_ret(v[i], v[j]), flags_all(v[i], v[j]), through(v[i], v[j]));
}
