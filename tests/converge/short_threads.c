// Threads that are soon over, one after another. Each loads one number; every hundredth loads twenty thousand different ones, too.
// argv: threads
#include <pthread.h>
#include <stdlib.h>

static volatile int seven = 7;
static volatile int numbers[20000];
static volatile long sum;

__attribute__((noinline)) static int once(void) { return seven; }

__attribute__((noinline)) static long many(void) {
    long all = 0;
    for (int n = 0; n < 20000; n++) all += numbers[n];
    return all;
}

static void *work(void *how) {
    sum = once() + (how ? many() : 0);
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 100;
    for (int n = 0; n < 20000; n++) numbers[n] = n;
    for (int n = 0; n < threads; n++) {
        pthread_t thread;
        pthread_create(&thread, 0, work, n % 100 == 99 ? &thread : 0);
        pthread_join(thread, 0);
    }
    return 0;
}
