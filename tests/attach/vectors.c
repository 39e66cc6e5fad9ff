// Keeps patterns in all vector registers, the x87 stack and the control words while it computes, in two threads, for so many
// seconds, or until SIGTERM, and says whether none was ever another.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile double until;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// Ends the work early, as SIGTERM asks for.
static void stop(int signal)
{
    (void)signal;
    until = 0;
}

struct state {
    uint8_t wide[16][32];
    double stack[4];
    uint32_t mxcsr;
    uint16_t control;
};

__attribute__((target("avx"))) static void hold(const struct state *in, struct state *out)
{
    uint64_t n = 4000000;
    __asm__ volatile(
        "fnstcw %[old]\n fldcw %[control]\n"
        "fldl 24+%[stack]\n fldl 16+%[stack]\n fldl 8+%[stack]\n fldl %[stack]\n"
        "ldmxcsr %[mxcsr]\n"
        "vmovdqu (%[wide]), %%ymm0\n vmovdqu 32(%[wide]), %%ymm1\n vmovdqu 64(%[wide]), %%ymm2\n vmovdqu 96(%[wide]), %%ymm3\n"
        "vmovdqu 128(%[wide]), %%ymm4\n vmovdqu 160(%[wide]), %%ymm5\n vmovdqu 192(%[wide]), %%ymm6\n vmovdqu 224(%[wide]), %%ymm7\n"
        "vmovdqu 256(%[wide]), %%ymm8\n vmovdqu 288(%[wide]), %%ymm9\n vmovdqu 320(%[wide]), %%ymm10\n vmovdqu 352(%[wide]), %%ymm11\n"
        "vmovdqu 384(%[wide]), %%ymm12\n vmovdqu 416(%[wide]), %%ymm13\n vmovdqu 448(%[wide]), %%ymm14\n vmovdqu 480(%[wide]), %%ymm15\n"
        "1: dec %[n]\n jnz 1b\n"
        "vmovdqu %%ymm0, (%[out])\n vmovdqu %%ymm1, 32(%[out])\n vmovdqu %%ymm2, 64(%[out])\n vmovdqu %%ymm3, 96(%[out])\n"
        "vmovdqu %%ymm4, 128(%[out])\n vmovdqu %%ymm5, 160(%[out])\n vmovdqu %%ymm6, 192(%[out])\n vmovdqu %%ymm7, 224(%[out])\n"
        "vmovdqu %%ymm8, 256(%[out])\n vmovdqu %%ymm9, 288(%[out])\n vmovdqu %%ymm10, 320(%[out])\n vmovdqu %%ymm11, 352(%[out])\n"
        "vmovdqu %%ymm12, 384(%[out])\n vmovdqu %%ymm13, 416(%[out])\n vmovdqu %%ymm14, 448(%[out])\n vmovdqu %%ymm15, 480(%[out])\n"
        "stmxcsr %[mxcsr_out]\n"
        "fstpl %[stack_out]\n fstpl 8+%[stack_out]\n fstpl 16+%[stack_out]\n fstpl 24+%[stack_out]\n"
        "fnstcw %[control_out]\n fldcw %[old]\n ldmxcsr %[usual]\n vzeroupper\n"
        : [n] "+r"(n), [stack_out] "=m"(out->stack), [mxcsr_out] "=m"(out->mxcsr), [control_out] "=m"(out->control),
          [old] "=m"((uint16_t){ 0 })
        : [wide] "r"(in->wide), [out] "r"(out->wide), [stack] "m"(in->stack), [mxcsr] "m"(in->mxcsr), [control] "m"(in->control),
          [usual] "m"((uint32_t){ 0x1f80 })
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
          "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)");
}

static void *work(void *of)
{
    struct state in, out;
    long wrong = 0;
    memset(&in, 0, sizeof in);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 32; j++) in.wide[i][j] = (uint8_t)(i * 32 + j + (long)of * 7 + 1);
    for (int i = 0; i < 4; i++) in.stack[i] = 1.5 * i + (double)(long)of;
    // Rounding down, and to 53 bits.
    in.mxcsr = 0x3f80;
    in.control = 0x067f;
    while (now() < until) {
        memset(&out, 0, sizeof out);
        hold(&in, &out);
        wrong += memcmp(&in, &out, sizeof in) != 0;
    }
    return (void *)wrong;
}

int main(int argc, char **argv)
{
    pthread_t other;
    void *its;
    if (!__builtin_cpu_supports("avx")) return puts("good"), 0;
    until = now() + atof(argv[1]);
    signal(SIGTERM, stop);
    pthread_create(&other, NULL, work, (void *)1);
    long wrong = (long)work((void *)0);
    pthread_join(other, &its);
    wrong += (long)its;
    puts(wrong ? "registers were changed" : "good");
    return wrong != 0;
}
