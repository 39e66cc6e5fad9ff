// Work for queries, by as many threads as the second argument says, for as many turns each as the first says: branches, calls, loads and
// stores of known proportions, and now and then a system call.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 16, N = 1024 };
static uint64_t turns;
static uint64_t sums[MOST][8];
static uint64_t cells[MOST][N];

__attribute__((noinline)) static uint64_t often(uint64_t x) { return x * 3 + 1; }
__attribute__((noinline)) static uint64_t seldom(uint64_t x) { return x ^ x >> 3; }
__attribute__((noinline)) static void keep(uint64_t *to, uint64_t what) { *(volatile uint64_t *)to = what; }

static void *work(void *argument)
{
    uint64_t self = (uintptr_t)argument, x = 88172645463325252ull + self, sum = 0;
    for (uint64_t i = 0; i < turns; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        if ((x & 7) != 0) sum += often(x); else sum ^= seldom(x);
        keep(&cells[self][x >> 20 & (N - 1)], x & 255);
        sum += *(volatile uint64_t *)&cells[self][x >> 40 & (N - 1)];
        if ((i & 16383) == 0) sum += getppid() > 0;
    }
    sums[self][0] = sum;
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST];
    uint64_t count = argc > 2 ? strtoull(argv[2], 0, 10) : 1, all = 0;
    turns = strtoull(argv[1], 0, 10);
    for (uint64_t k = 1; k < count && k < MOST; k++) pthread_create(&threads[k], 0, work, (void *)(uintptr_t)k);
    work(0);
    for (uint64_t k = 1; k < count && k < MOST; k++) pthread_join(threads[k], 0);
    for (uint64_t k = 0; k < count && k < MOST; k++) all += sums[k][0];
    printf("%llx\n", (unsigned long long)all);
    return 0;
}
