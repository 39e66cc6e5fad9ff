// Loads of values whose shares are known to the exact profile: constant, nearly constant, skewed, spread, and changing over
// time. Works for as many turns as its argument says.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 4096
static uint64_t constant[N], nearly[N], skewed[N], spread[N];
static volatile uint64_t phase;
static uint64_t state = 88172645463325252ull;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }

int main(int argc, char **argv)
{
    uint64_t turns = strtoull(argv[1], 0, 10), sum = 0;
    for (int i = 0; i < N; i++) {
        constant[i] = 42;
        nearly[i] = next() % 50 ? 7 : next() % 1000;
        skewed[i] = next() % (1 + next() % 40);
        spread[i] = next();
    }
    for (uint64_t i = 0; i < turns; i++) {
        uint64_t at = next() % N;
        sum += *(volatile uint64_t *)&constant[at];
        sum ^= *(volatile uint64_t *)&nearly[at];
        sum += *(volatile uint64_t *)&skewed[at];
        sum ^= *(volatile uint64_t *)&spread[at];
        phase = i * 5 / turns;
        sum += phase;
    }
    printf("%llx\n", (unsigned long long)sum);
    return 0;
}
