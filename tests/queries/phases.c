/* Stores that are rare, then frequent, then rare and frequent again. The value stored is the number of the phase and that of
 * the store in it. A thousand rare ones have a system call before them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile unsigned long cell;

__attribute__((noinline)) static void store(unsigned long value) { cell = value; }

/* Some ten microseconds without a store. */
__attribute__((noinline)) static unsigned long think(unsigned long from)
{
    unsigned long x = from | 1;
    for (int n = 0; n < 12000; n++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

int main(int count, char **arguments)
{
    unsigned long rare = count > 1 ? strtoul(arguments[1], NULL, 10) : 20000;
    unsigned long frequent = count > 2 ? strtoul(arguments[2], NULL, 10) : 100000000;
    unsigned long sum = 0;
    for (unsigned long phase = 0; phase < 4; phase++)
        for (unsigned long n = 0; n < (phase & 1 ? frequent : rare); n++) {
            if (n % 1000 == 0 && (phase & 1) == 0) signal(SIGUSR1, SIG_IGN);
            if ((phase & 1) == 0) sum += think(n);
            store(phase << 32 | n);
        }
    printf("%lu\n", sum);
    return 0;
}
