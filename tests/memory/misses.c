/* Loads and stores that miss caches in ways that can be told in advance, in one thread, from static memory. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 160, LINES = 6000 };

static double a[N][N], b[N][N], c[N][N];
static struct line { unsigned next; char rest[60]; } ring[LINES] __attribute__((aligned(64)));
static unsigned char text[1 << 19], copy[1 << 19];
/* Words that cross lines. */
static char crossing[1 << 16] __attribute__((aligned(64)));

static void __attribute__((noinline)) multiply(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
}

static unsigned __attribute__((noinline)) chase(unsigned at, int steps)
{
    while (steps--)
        at = ring[at].next;
    return at;
}

static void __attribute__((noinline)) move(void *to, const void *from, unsigned long bytes)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static unsigned __attribute__((noinline)) cross(void)
{
    unsigned sum = 0;
    for (int n = 60; n + 8 < (int)sizeof crossing; n += 64) {
        unsigned long *word = (unsigned long *)(crossing + n);
        *word += 3;
        sum += *word;
    }
    return sum;
}

/* Accesses through FS: with an index, and with a base. */
static __thread unsigned own[4096];
static __thread unsigned last;

static unsigned __attribute__((noinline)) through_fs(unsigned step)
{
    for (unsigned n = 0; n < 400000; n++) {
        own[n * step & 4095] += n;
        last = own[last & 4095] + n;
    }
    return last;
}

static int __attribute__((noinline)) deep(int n)
{
    volatile char room[200];
    room[n % 200] = 1;
    return n == 0 ? 0 : room[n % 200] + deep(n - 1);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    unsigned random = 1, at = 0, sum = 0;
    for (int n = 0; n < N * N; n++)
        a[n / N][n % N] = b[n % N][n / N] = n;
    /* A permutation of the lines that is one ring: a step that has no common divisor with their number. */
    for (unsigned n = 0; n < LINES; n++)
        ring[n].next = (n + 4243) % LINES;
    for (int round = 0; round < rounds; round++) {
        multiply();
        at = chase(at, 60000);
        for (int n = 0; n < 60000; n++) {
            random = random * 1103515245 + 12345;
            text[random >> 13] ^= n;
        }
        move(copy, text, sizeof text);
        sum += cross() + deep(900) + copy[77] + through_fs(17);
    }
    printf("%u %u %.0f\n", at, sum, c[N / 2][N / 3]);
    return 0;
}
