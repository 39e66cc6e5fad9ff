// Functions that are called with known arguments in known shares. Works for as many turns as its argument says.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define APART __attribute__((noinline, noipa))

static volatile uint64_t sink;

// Always 42; the second differs each time.
APART static uint64_t constant(int a, uint64_t b)
{
    return b % (unsigned)a + (b >> (a & 7)) + a;
}

// 7 in nine of ten calls; otherwise what it was in none before. Reads four bytes of what it is given eight of.
APART static uint64_t mostly(uint64_t unread, uint64_t b, uint32_t a)
{
    return a * 3 + (a ^ b) + (b >> (a & 3));
}

// 0 to 3, equally often.
APART static uint64_t uniform(unsigned a)
{
    return a * 5 + (a << 3);
}

// At one call always 100, at the other one of 64.
APART static uint64_t sites(unsigned a)
{
    return (a * a ^ a >> 2) + a;
}

// Through one pointer, three times as often the first.
APART static uint64_t first(uint64_t a) { return (a + 1) * a - (a >> 1); }
APART static uint64_t second(uint64_t a) { return (a + 2) * a - (a >> 2); }

APART static uint64_t text(const char *s, int n)
{
    return s[n] + s[0] + (s[1] ^ n);
}

// The second is always 40, as in `pow(x, 40.0)`. The third, of four bytes, is 2.5 in three of four calls.
APART static double power(double x, double y, float z)
{
    return x * y + y * y + y / (z + z * z);
}

// Passes on what it has been given.
APART static uint64_t passes_on(int a, uint64_t b)
{
    return constant(a, b) + 1;
}

int main(int argc, char **argv)
{
    uint64_t turns = strtoull(argv[1], 0, 10), sum = 0;
    uint64_t (*volatile way[4])(uint64_t) = { first, second, first, first };
    for (uint64_t i = 0; i < turns; i++) {
        uint64_t x = i * 0x9e3779b97f4a7c15;
        sum += constant(42, x);
        // What is above the four bytes that are read differs.
        uint64_t a = x % 10 ? 7 : 1000 + (i & 0xffffff);
        sum ^= mostly(0, x, a | (x & 0xff00000000000000));
        sum += uniform(x >> 62);
        sum += sites(100);
        sum ^= sites(x >> 58);
        sum += way[i & 3](i & 1 ? 222 : 111);
        sum += text("frequent", x >> 63);
        sum ^= passes_on(42, x);
        sum += power(x >> 40, 40.0, i & 3 ? 2.5f : 0.5f) > 1e7;
    }
    sink = sum;
    printf("%llx\n", (unsigned long long)sum);
    return 0;
}
