// Loops in which a load meets a store: one of a part of its bytes, one whose address is found late, and one of other bytes
// whose address looks like its own. With -DMENDED each is written so that it does not. Works for as many turns as
// its argument says, and says what it has computed, which is the same.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct parts { uint32_t low, high; };
static _Alignas(4096) volatile unsigned char page[3 * 4096];
static volatile struct parts parts;
static volatile uint64_t whole;
static uint64_t cell[2];
static uint64_t *volatile where[2] = { &cell[0], &cell[1] };
static uint64_t **volatile index_of = (uint64_t **)where;

// Two halves are stored, and loaded as one.
__attribute__((noinline)) uint64_t by_size(uint64_t turns)
{
    uint64_t sum = 0;
    for (uint64_t n = 0; n < turns; n++) {
#ifdef MENDED
        whole = (uint32_t)n | (n ^ 5) << 32;
        sum += whole;
#else
        parts.low = n;
        parts.high = n ^ 5;
        sum += *(volatile uint64_t *)&parts;
#endif
    }
    return sum;
}

// A cell is stored to through two pointers that must be loaded first, and loaded by its name.
__attribute__((noinline)) uint64_t by_order(uint64_t turns)
{
    uint64_t sum = 0;
    for (uint64_t n = 0; n < turns; n++) {
#ifdef MENDED
        *(volatile uint64_t *)&cell[0] = n;
#else
        *(volatile uint64_t *)*(uint64_t *volatile *)index_of = n;
#endif
        sum += *(volatile uint64_t *)&cell[0];
    }
    return sum;
}

// What is loaded lies a page behind what is stored.
__attribute__((noinline)) uint64_t by_synonym(uint64_t turns)
{
#ifdef MENDED
    enum { APART = 4096 + 2048 };
#else
    enum { APART = 4096 };
#endif
    uint64_t sum = 0;
    for (uint64_t n = 0; n < turns; n++) {
        uint64_t at = n % 128 * 16;
        *(volatile uint64_t *)&page[at] = n;
        sum += *(volatile uint64_t *)&page[at + APART];
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t turns = strtoull(argv[1], 0, 10);
    uint64_t size = by_size(turns), order = by_order(turns), synonym = by_synonym(turns);
    printf("%llx %llx %llx\n", (unsigned long long)size, (unsigned long long)order, (unsigned long long)synonym);
    return 0;
}
