// build: -O2 | -O0 | -O3 -march=native | -O2 -static | -O2 -static-pie | -O2 -no-pie
// The red zone (128 bytes below rsp) is live across conditional, direct and indirect jumps in leaf functions.
#include <stdio.h>
long redzone(long a, long b);
__asm__(".text\n.globl redzone\n.type redzone,@function\nredzone:\n"
" mov %rdi,-8(%rsp)\n mov %rsi,-16(%rsp)\n movq $7,-128(%rsp)\n movq $9,-120(%rsp)\n"
" cmp %rsi,%rdi\n jg 1f\n addq $3,-8(%rsp)\n jmp 2f\n1: subq $5,-16(%rsp)\n"
"2: lea 3f(%rip),%rax\n jmp *%rax\n ud2\n"
"3: lea 5f(%rip),%rax\n mov %rax,-64(%rsp)\n jmp *-64(%rsp)\n ud2\n"
"5: mov $10,%ecx\n4: mov -128(%rsp),%rax\n add -120(%rsp),%rax\n mov %rax,-128(%rsp)\n loop 4b\n"
" mov -8(%rsp),%rax\n imul -16(%rsp),%rax\n add -128(%rsp),%rax\n ret\n.size redzone,.-redzone\n");
static __attribute__((noinline)) int leaf(const int *p, int n) {
  int t[16]; for (int i = 0; i < 16; i++) t[i] = p[i % n] * i;
  int s = 0; for (int i = 0; i < 16; i++) { if (t[i] & 1) s += t[i]; else s ^= t[i ^ 3]; } return s; }
int main(void) {
  int v[7] = {3, 1, 4, 1, 5, 9, 2};
  for (long i = -5; i < 6; i++) printf("%ld %d\n", redzone(i, 2 * i + 1), leaf(v, (int)(i < 0 ? -i : i + 1)));
}
