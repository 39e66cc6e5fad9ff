// A program that tells and asks: what it prints is the same with and without Trommel; with it, the answers
// must make sense, or it ends with another status.
// build: -O1 | -O2 -static
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "../../include/trommel.h"

#define NEED(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); exit(9); } } while (0)

static volatile unsigned sink;
__attribute__((noinline)) static unsigned work(unsigned n)
{
    unsigned s = 1;
    for (unsigned i = 0; i < n; i++) s = s * 31 + (i ^ s >> 3);
    return s;
}
__attribute__((noinline)) static unsigned other(unsigned n)
{
    unsigned s = 7;
    for (unsigned i = 0; i < n; i++) s += s << 5 ^ i;
    return s;
}

// Under control: a program that does not gain may be let go at any time, and is answered as natively then.
static int under;
static int is(long answer, long expected)
{
    if (under && answer == TROMMEL_ABSENT) under = trommel_present() != 0;
    return answer == (under ? expected : TROMMEL_ABSENT);
}

int main(void)
{
    under = trommel_present() != 0;
    const int began = under;
    struct trommel_counts a, b;
    memset(&a, 0x55, sizeof a);

    // Registers and flags are as they were, but for the answer.
    uint64_t regs[6], flags;
    __asm__ volatile("stc\n\tmov $3, %%rbx\n\tmov $4, %%rcx\n\tmov $5, %%r11\n\txor %%eax, %%eax\n\tstc\n\t"
                     ".byte 0x0f,0x1f,0x84,0x00,0x54,0x52,0x4d,0x4c\n\t"
                     "mov %%rbx, 0(%1)\n\tmov %%rcx, 8(%1)\n\tmov %%rdi, 16(%1)\n\tmov %%rsi, 24(%1)\n\tmov %%r11, 32(%1)\n\tpushfq\n\tpop %0"
                     : "=&r"(flags) : "r"(regs), "D"((uint64_t)1 << 32 | 1), "S"(11ul), "d"(12ul)
                     : "rax", "rbx", "rcx", "r11", "memory", "cc");
    NEED(regs[0] == 3 && regs[1] == 4 && regs[2] == ((uint64_t)1 << 32 | 1) && regs[3] == 11 && regs[4] == 5);
    NEED(flags & 1);

    // What is not known or makes no sense is refused.
    long wrong = trommel_request((enum trommel_number)99, 0, 0);
    NEED(is(wrong, TROMMEL_UNKNOWN));
    NEED(is(trommel_hot((void *)&sink, (void *)&sink), TROMMEL_WRONG));
    NEED(is(trommel_counts((void *)8), TROMMEL_WRONG));

    // Hints.
    NEED(is(trommel_stop(), TROMMEL_DONE));
    sink = work(20000);
    NEED(is(trommel_counts(&a), TROMMEL_DONE));
    NEED(is(trommel_start(), TROMMEL_DONE));
    NEED(is(trommel_hot((void *)other, (char *)other + 256), TROMMEL_DONE));
    for (int i = 0; i < 40; i++) sink = other(20);
    for (int i = 0; i < 3; i++) sink = work(20000);
    NEED(is(trommel_counts(&b), TROMMEL_DONE));
    if (under) {
        NEED(b.requests > a.requests && b.dispatches > a.dispatches && b.fragments >= a.fragments && b.cache_bytes > 0);
        // Whether there are traces is the user's choice; stopped, none is made.
        NEED(b.traces >= a.traces);
    } else if (!began) {
        NEED(a.traces == 0x5555555555555555);
    }
    NEED(is(trommel_volatile((void *)&sink, (char *)&sink + 4), TROMMEL_DONE));

    // Code that is made, beside its own data.
    unsigned char *code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(code != MAP_FAILED);
    NEED(is(trommel_jit(code, code + 8192), TROMMEL_DONE));
    long sum = 0;
    for (int i = 0; i < 3000; i++) {
        const unsigned char function[] = { 0xb8, (unsigned char)i, 1, 0, 0, 0xc3 };
        memcpy(code, function, sizeof function);
        sum += ((int (*)(void))code)();
        code[64] = (unsigned char)i;
    }
    printf("%ld %u\n", sum, work(1000));

    NEED(is(trommel_leave(), TROMMEL_DONE));
    NEED(trommel_present() == 0);
    printf("%u\n", other(100000));
    return 0;
}
