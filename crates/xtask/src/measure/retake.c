/* So many calls that cannot be predicted, and then a loop that goes round so many million times. */
#include <stdio.h>
#include <stdlib.h>

/* Code of its own, whose samples are not those of the rest. */
#define APART __attribute__((noinline, aligned(4096)))

static unsigned long state = 88172645463325252ul;

static unsigned long next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static long one(long x) { return x + 1; }
static long two(long x) { return x ^ 3; }
static long three(long x) { return x * 5; }
static long four(long x) { return x - 7; }
static long (*volatile table[4])(long) = { one, two, three, four };

APART static long loop(long turns)
{
    long sum = 0, a = 1, b = 2;
    for (long n = 0; n < turns; n++) {
        sum += a ^ n;
        a += b;
        b = (b << 1) ^ (n & 7);
        sum -= b & 1;
    }
    return sum;
}

APART int main(int argc, char **argv)
{
    long sum = 0;
    for (long n = argc > 2 ? atol(argv[1]) : 0; n; n--) sum = table[next() & 3](sum);
    for (long n = argc > 2 ? atol(argv[2]) : 0; n; n--) sum += loop(1000000);
    printf("%ld\n", sum);
    return 0;
}
