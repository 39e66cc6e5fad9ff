// Deterministic work for about as long as its argument says, in hundredths of a second: branches, direct and indirect calls, loads.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252ull;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }
__attribute__((noinline)) static uint64_t one(uint64_t x) { return x % 3 ? x + 1 : x * 5; }
__attribute__((noinline)) static uint64_t two(uint64_t x) { return x & 64 ? x ^ 77 : x >> 1; }
__attribute__((noinline)) static uint64_t three(uint64_t x) { return x < 1000 ? one(x) : two(x); }
static uint64_t (*volatile functions[3])(uint64_t) = { one, two, three };
static uint64_t cells[4096];

int main(int argc, char **argv)
{
    uint64_t rounds = strtoull(argv[1], 0, 10) * 300000, sum = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t x = next();
        cells[x % 4096] += functions[x % 3](x >> 20);
        switch (x >> 10 & 7) {
        case 0: sum += cells[x >> 30 & 4095]; break;
        case 1: sum ^= x; break;
        case 2: sum = sum << 1 | sum >> 63; break;
        case 3: sum -= i; break;
        case 4: sum += one(i); break;
        case 5: sum ^= two(i); break;
        default: sum++;
        }
    }
    printf("%llx\n", (unsigned long long)sum);
    return 0;
}
