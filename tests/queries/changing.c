/* Threads that store in a loop until a signal. Prints the number of stores of `staying`, which each thread counts by itself, and whether
   the threads have computed what they should. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t stop;

static void on_signal(int signal) {
    (void)signal;
    stop = 1;
}

__attribute__((noinline)) static void staying(volatile long *to, long value) {
    *to = value;
}

__attribute__((noinline)) static long other(long x, volatile long *to) {
    for (int i = 0; i < 20; i++) {
        x = x & 1 ? x * 3 + 1 : x >> 1;
        *to += x;
    }
    return x;
}

struct result {
    long times, sum;
};

static void *work(void *of) {
    struct result *result = of;
    volatile long stored = 0, to = 0;
    long steps = 0;
    while (!stop) {
        staying(&stored, result->times);
        result->sum += result->times;
        long x = result->times++, before = to;
        long end = other(x, &to);
        /* The same once in a while by what no query is about. */
        if ((++steps & 0xfff) == 0) {
            long sum = before;
            for (int i = 0; i < 20; i++) {
                x = x & 1 ? x * 3 + 1 : x >> 1;
                sum += x;
            }
            if (sum != to || x != end) return 0;
        }
    }
    long n = result->times;
    return stored == n - 1 && result->sum == n * (n - 1) / 2 ? result : 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    struct result results[64] = {{0}};
    pthread_t all[64];
    signal(SIGUSR1, on_signal);
    for (int i = 1; i < threads; i++) pthread_create(&all[i], 0, work, &results[i]);
    printf("ready\n");
    fflush(stdout);
    int good = work(&results[0]) != 0;
    for (int i = 1; i < threads; i++) {
        void *end;
        pthread_join(all[i], &end);
        good &= end != 0;
    }
    long times = 0;
    for (int i = 0; i < threads; i++) times += results[i].times;
    printf("%ld %s\n", times, good ? "good" : "WRONG");
    return !good;
}
