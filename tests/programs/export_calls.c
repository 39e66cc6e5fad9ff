// build: -O2 -g
// Calls of each sort, a jump table, recursion and a tail call, without calls of libraries: for the tests of exports.
#include <unistd.h>

static unsigned char seen[8];

__attribute__((noinline)) static unsigned mix(unsigned x)
{
    for (int i = 0; i < 8; i++) {
        if (x & 1)
            x = (x >> 1) ^ 0xedb88320u;
        else
            x = x >> 1;
    }
    return x;
}

static inline int small(int x)
{
    if (x % 3 == 0)
        return x / 3;
    return x + 1;
}

__attribute__((noinline)) static int kind(int x)
{
    switch (x % 7) {
    case 0:
        return 5;
    case 1:
        return x;
    case 2:
        return x * 3;
    case 3:
        return (int)mix((unsigned)x);
    case 4:
        return -x;
    case 5:
        return small(x);
    default:
        return 9;
    }
}

__attribute__((noinline)) static int never(int x)
{
    seen[x & 7]++;
    return x;
}

__attribute__((noinline)) static int fib(int n)
{
    if (n < 2)
        return n;
    return fib(n - 1) + fib(n - 2);
}

static int (*volatile called)(int) = kind;
static volatile unsigned times = 3000;

__attribute__((noinline)) static unsigned work(unsigned n)
{
    unsigned sum = 1;
    for (unsigned i = 0; i < n; i++) {
        sum = mix(sum + i);
        sum += (unsigned)called((int)(sum & 0xffff));
        sum += (unsigned)small((int)i);
        if (sum == 0)
            sum += (unsigned)never((int)i);
    }
    return sum + (unsigned)fib(15);
}

int main(void)
{
    unsigned sum = work(times);
    char text[9];
    for (int i = 0; i < 8; i++)
        text[i] = "0123456789abcdef"[sum >> (28 - 4 * i) & 15];
    text[8] = '\n';
    return write(1, text, 9) == 9 ? 0 : 1;
}
