// build: -O0 | -O2
// What traces lead through: calls, indirect calls and jumps that repeat and then go elsewhere, branches taken and not, loops with several
// ways and loops left in the middle, recursion, and faults in the middle of them. Does the same in every run.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

static unsigned sum;

APART static unsigned twice(unsigned x) { return 2 * x + 1; }
APART static unsigned thrice(unsigned x) { return x % 7 ? 3 * x : twice(x); }
APART static unsigned half(unsigned x) { return x / 2; }
static unsigned (*const calls[])(unsigned) = {twice, thrice, half};

// Calls the same function for long, then another, then each in turn.
APART static void indirect(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        unsigned n = i < rounds / 3 ? 0 : i < rounds / 2 ? 1 : i % 3;
        sum += calls[n](i);
    }
}

// A loop of an interpreter, over a program that repeats and at times jumps.
APART static void interpret(unsigned rounds)
{
    static const char code[] = "abcabdabcaef";
    for (unsigned i = 0; i < rounds; i++) {
        for (const char *at = code; *at; at++) {
            switch (*at) {
            case 'a': sum += i; break;
            case 'b': sum ^= sum >> 3; break;
            case 'c': sum = sum * 5 + 1; break;
            case 'd': if (i % 5 == 0) at += 2; break;
            case 'e': sum -= twice(i); break;
            case 'f': sum += half(sum); break;
            case 'g': sum = 0; break;
            case 'h': sum = 1; break;
            }
        }
    }
}

// Ways through a loop, of which one leaves and comes again.
APART static void ways(unsigned rounds)
{
    volatile unsigned a = 0, b = 1, c = 2;
    for (unsigned i = 0; i < rounds; i++) {
        a += 3;
        if (i % 4 == 1) {
            b += a;
            if (i % 8 == 5)
                c ^= b;
        } else if (i % 16 == 10) {
            c += 7;
        }
        if (a > 1000000)
            break;
        while (b > 5000)
            b -= 4999;
    }
    sum += a ^ b ^ c;
}

APART static unsigned recursive(unsigned n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }

APART static void nested(unsigned rounds)
{
    static unsigned char cells[64][64];
    for (unsigned r = 0; r < rounds; r++)
        for (unsigned y = 1; y < 63; y++)
            for (unsigned x = 1; x < 63; x++) {
                unsigned n = cells[y - 1][x] + cells[y + 1][x] + cells[y][x - 1] + cells[y][x + 1];
                cells[y][x] = n > 700 ? n / 5 : (n + x * y + r) & 255;
            }
    for (unsigned y = 0; y < 64; y++)
        sum += cells[y][y];
}

static sigjmp_buf back;
static unsigned faults;

static void handler(int signo)
{
    (void)signo;
    faults++;
    siglongjmp(back, 1);
}

// A fault in the middle of a loop with a call in it, each so many rounds.
APART static void faulting(unsigned times)
{
    static unsigned words[64];
    for (unsigned t = 0; t < times; t++) {
        if (sigsetjmp(back, 1))
            continue;
        volatile unsigned *at = words;
        for (unsigned i = 0;; i++) {
            if (i == 40 + t % 20)
                at = (unsigned *)8;
            if (i & 1)
                sum += twice(*at);
            else
                sum ^= *at;
        }
    }
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? atoi(argv[1]) : 300;
    signal(SIGSEGV, handler);
    indirect(40 * rounds);
    interpret(rounds);
    ways(30 * rounds);
    sum += recursive(16);
    nested(rounds / 30);
    faulting(rounds / 3);
    printf("%u %u\n", sum, faults);
    return 0;
}
