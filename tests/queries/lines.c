// Reads four lines of a cache in turn, by one load. Prints the first one's address.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t cells[4][8] __attribute__((aligned(64)));

__attribute__((noinline)) static uint64_t look(uint64_t n) { return *(volatile uint64_t *)&cells[n & 3][n >> 2 & 7]; }

int main(int argc, char **argv)
{
    uint64_t turns = argc > 1 ? strtoull(argv[1], 0, 10) : 1, sum = 0;
    for (uint64_t n = 0; n < turns; n++) sum += look(n);
    printf("%llu\n", (unsigned long long)(uintptr_t)cells + sum);
    return 0;
}
