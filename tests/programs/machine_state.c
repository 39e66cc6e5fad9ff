// build: -O2 -march=native
// needs: avx512f avx512bw
// Vector halves, masks, x87 and MXCSR live across calls, system calls and string instructions; syscall's rcx and r11; cpuid and rdtsc.
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <x86intrin.h>
static __attribute__((noinline)) void other(void) { __asm__ volatile("mov $39,%%eax\n syscall" ::: "rax", "rcx", "r11"); }
int main(void) {
  static unsigned char in[64], o[3][64]; for (int i = 0; i < 64; i++) in[i] = (unsigned char)(i * 5 + 3); unsigned long k; long eq, r11;
  __asm__ volatile("vmovdqu64 %[i],%%zmm2\n vmovdqu64 %[i],%%zmm20\n vpaddb %%zmm2,%%zmm2,%%zmm31\n mov $0x123456789abcdef,%%rax\n kmovq %%rax,%%k5\n call *%[f]\n"
    "vmovdqu64 %%zmm2,%[a]\n vmovdqu64 %%zmm20,%[b]\n vmovdqu64 %%zmm31,%[c]\n kmovq %%k5,%[k]\n" : [a] "=m"(o[0]), [b] "=m"(o[1]), [c] "=m"(o[2]), [k] "=r"(k) : [i] "m"(in), [f] "r"(other) : "rax", "rcx", "r11", "xmm2", "xmm20", "xmm31", "memory");
  printf("%lx %d %d %d\n", k, memcmp(o[0], in, 64), memcmp(o[1], in, 64), o[2][63] == (unsigned char)(in[63] * 2));
  __asm__ volatile("mov $39,%%eax\n stc\n syscall\n1: lea 1b(%%rip),%%rdx\n sub %%rdx,%%rcx\n mov %%rcx,%0\n and $1,%%r11\n mov %%r11,%1\n" : "=&r"(eq), "=&r"(r11)::"rax", "rcx", "rdx", "r11", "memory"); printf("rcx-next %ld r11.cf %ld\n", eq, r11);
  for (int m = 0; m < 4; m++) { _mm_setcsr((_mm_getcsr() & ~0x6000u) | (unsigned)m << 13); volatile double d = 1.0 / 3; volatile double a = 1, b = 3; d = a / b; printf("%d %a\n", m, d); } _mm_setcsr(0x1f80);
  for (int m = 0; m < 4; m++) { unsigned short cw = (unsigned short)(0x37f | m << 10), cw2; long r; double v = 2.5; __asm__ volatile("fldcw %2\n fldl %3\n fistpll %0\n fnstcw %1\n fninit" : "=m"(r), "=m"(cw2) : "m"(cw), "m"(v)); printf("x87 %d %ld %x\n", m, r, cw2); }
  unsigned a, b, c, d; __cpuid(0, a, b, c, d); unsigned long t = __rdtsc(), u = __rdtsc(); printf("vendor %x %x %x later %d xcr0 %llx\n", b, c, d, u >= t, (unsigned long long)_xgetbv(0));
  char x[300], y[300]; for (int i = 0; i < 300; i++) x[i] = (char)(i * 3), y[i] = 0;
  for (int n = 0; n < 130; n += 13) { void *s = x, *t2 = y; long cx = n; __asm__ volatile("rep movsb" : "+S"(s), "+D"(t2), "+c"(cx)::"memory"); long cc = 200; void *q = x; unsigned char z; __asm__ volatile("repne scasb\n setz %2" : "+D"(q), "+c"(cc), "=q"(z) : "a"(n)); s = x + n; t2 = x + n + 40; cx = n / 4; __asm__ volatile("std\n rep movsl\n cld" : "+S"(s), "+D"(t2), "+c"(cx)::"memory"); unsigned h = 0; for (int i = 0; i < 300; i++) h = h * 31 + (unsigned char)x[i] + (unsigned char)y[i]; printf("%d %x %ld %d\n", n, h, cc, z); }
}
