/* Calls, loads and branches for so many seconds, in so many threads, of whose number it tells itself: a thread's loads find a few values mostly, and
   now and then one that there was not before. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { THREADS = 16, PLACES = 4096 };
static volatile uint64_t places[THREADS][PLACES];
static time_t end;
__attribute__((noinline)) uint64_t step(uint64_t n) { return n * 6364136223846793005u + 1442695040888963407u; }
__attribute__((noinline)) uint64_t look(volatile uint64_t *place) { return *place; }
static void *work(void *number)
{
    volatile uint64_t *mine = places[(uintptr_t)number];
    uint64_t at = (uintptr_t)number, rounds = 0, sum = 0;
    while (time(NULL) < end)
        for (int n = 0; n < 10000; n++, rounds++) {
            at = step(at);
            sum += look(&mine[at >> 52]);
            if ((at >> 20) % 1000 == 0) mine[at >> 52] = at & 0xffffff;
        }
    mine[0] = sum;
    return (void *)rounds;
}
int main(int argc, char **argv)
{
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    pthread_t others[THREADS];
    if (threads < 1 || threads > THREADS) return 2;
    end = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
    for (int n = 1; n < threads; n++) pthread_create(&others[n], NULL, work, (void *)(uintptr_t)n);
    uint64_t rounds = (uint64_t)work((void *)0);
    for (int n = 1; n < threads; n++) {
        void *its;
        pthread_join(others[n], &its);
        rounds += (uint64_t)its;
    }
    printf("%lu\n", rounds);
    return 0;
}
