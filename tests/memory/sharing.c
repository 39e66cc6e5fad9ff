/* Two threads with counters of their own, in one line or, mended, each in a line; and a third counter that both increment.
   `both` is left out where CLEAN is defined. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef MENDED
#define APART __attribute__((aligned(64)))
#else
#define APART
#endif

struct counters {
    volatile long first APART;
    volatile long second APART;
    /* Nothing else is in its line. */
    char rest[64] APART;
};
static struct counters counters __attribute__((aligned(64)));
static struct { long n; } both __attribute__((aligned(64)));
static long rounds;
static pthread_barrier_t turn;

static void *count(void *of)
{
    volatile long *own = of;
    for (long n = 0; n < rounds; n++) {
        /* Whatever the scheduler does, they take turns. */
        if (n % (rounds / 8) == 0)
            pthread_barrier_wait(&turn);
        *own += 1;
#ifndef CLEAN
        if (n % 16 == 0)
            __atomic_fetch_add(&both.n, 1, __ATOMIC_RELAXED);
#endif
    }
    return 0;
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? atol(argv[1]) : 100000;
    pthread_t threads[2];
    pthread_barrier_init(&turn, 0, 2);
    pthread_create(&threads[0], 0, count, (void *)&counters.first);
    pthread_create(&threads[1], 0, count, (void *)&counters.second);
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], 0);
    printf("%ld %ld %ld\n", counters.first, counters.second, both.n);
    return 0;
}
