// build: -O2 -march=native
// needs: avx512f
// Handlers trash every vector and mask register, x87 and MXCSR; the interrupted code finds its own again.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>
static volatile int n;
static void h(int s) { (void)s; n++;
  __asm__ volatile("vpternlogd $255,%%zmm0,%%zmm0,%%zmm0\n vmovdqa64 %%zmm0,%%zmm5\n vmovdqa64 %%zmm0,%%zmm17\n vmovdqa64 %%zmm0,%%zmm31\n kxnorw %%k3,%%k3,%%k3\n fninit\n" ::: "xmm0", "xmm5", "xmm17", "xmm31"); unsigned m = 0x5f80; __asm__ volatile("ldmxcsr %0" ::"m"(m)); }
int main(void) {
  signal(SIGUSR1, h); static unsigned char z[4][64], in[64]; for (int i = 0; i < 64; i++) in[i] = (unsigned char)(i * 7 + 1);
  unsigned mx = 0x3f80, mo; unsigned short cw = 0x0e7f, co; unsigned k; long pid = getpid(), ret;
  __asm__ volatile("ldmxcsr %[mx]\n fldcw %[cw]\n vmovdqu64 %[in],%%zmm5\n vpaddb %%zmm5,%%zmm5,%%zmm17\n vpaddb %%zmm5,%%zmm17,%%zmm31\n vmovdqa64 %%zmm5,%%zmm0\n mov $0xa5a5,%%ecx\n kmovw %%ecx,%%k3\n"
    "mov $62,%%eax\n mov %[pid],%%rdi\n mov $10,%%esi\n syscall\n"
    "vmovdqu64 %%zmm0,%[a]\n vmovdqu64 %%zmm5,%[b]\n vmovdqu64 %%zmm17,%[c]\n vmovdqu64 %%zmm31,%[d]\n kmovw %%k3,%%edx\n stmxcsr %[mo]\n fnstcw %[co]\n"
    : [a] "=m"(z[0]), [b] "=m"(z[1]), [c] "=m"(z[2]), [d] "=m"(z[3]), [mo] "=m"(mo), [co] "=m"(co), "=&d"(k), "=&a"(ret) : [in] "m"(in), [mx] "m"(mx), [cw] "m"(cw), [pid] "r"(pid) : "rcx", "rdi", "rsi", "r11", "xmm0", "xmm5", "xmm17", "xmm31", "memory");
  mx = 0x1f80; __asm__ volatile("ldmxcsr %0\n fninit" ::"m"(mx));
  printf("%d %ld %x %x %x\n", n, ret, k, mo, co); for (int r = 0; r < 4; r++) { for (int i = 0; i < 64; i++) printf("%02x", z[r][i]); puts(""); }
}
