// build: -O2 | -O3 -march=native | -O0
// Carry chains over branches: 1024-bit addition and subtraction with dec/jnz loops (dec keeps carry), rcl/rcr.
#include <stdio.h>
typedef unsigned long u;
u big_add(u *a, const u *b, long n), big_sub(u *a, const u *b, long n), big_rcl(u *a, long n);
__asm__(".text\n.globl big_add,big_sub,big_rcl\n"
"big_add: clc\n1: mov (%rsi),%rax\n lea 8(%rsi),%rsi\n adc %rax,(%rdi)\n lea 8(%rdi),%rdi\n dec %rdx\n jnz 1b\n setc %al\n movzbl %al,%eax\n ret\n"
"big_sub: clc\n1: mov (%rsi),%rax\n lea 8(%rsi),%rsi\n sbb %rax,(%rdi)\n lea 8(%rdi),%rdi\n dec %rdx\n jnz 1b\n setc %al\n movzbl %al,%eax\n ret\n"
"big_rcl: clc\n1: rclq $1,(%rdi)\n lea 8(%rdi),%rdi\n dec %rsi\n jnz 1b\n sbb %rax,%rax\n ret\n");
int main(void) {
  u a[16], b[16], x = 88172645463325252ul;
  for (int i = 0; i < 16; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; a[i] = x; b[i] = ~x + (u)(i == 0); }
  u c = 0;
  for (int r = 0; r < 300; r++) { c = c * 3 + big_add(a, b, 16); c = c * 3 + big_sub(b, a, 16); c += big_rcl(r & 1 ? a : b, 16); }
  printf("%lx\n", c); for (int i = 0; i < 16; i++) printf("%016lx %016lx\n", a[i], b[i]);
}
