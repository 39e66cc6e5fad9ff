// Threads that compute and wait for each other, and others that start and end threads all the time.
// argv: seconds, or until SIGTERM, threads of the one kind, of the other.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "until.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static long total;

static void *compute(void *seed) {
    long n = 0;
    unsigned long x = (long)seed;
    while (now() < until) {
        for (int i = 0; i < 20000; i++) {
            x = x * 6364136223846793005ul + 1;
            if (x >> 63) n++;
        }
        pthread_mutex_lock(&lock);
        pthread_cond_broadcast(&turn);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    total += n;
    pthread_mutex_unlock(&lock);
    return (void *)n;
}

static void *brief(void *unused) {
    long n = 0;
    (void)unused;
    for (int i = 0; i < 1000; i++) n += i;
    return (void *)n;
}

static void *start(void *unused) {
    (void)unused;
    while (now() < until) {
        pthread_t t;
        void *sum;
        if (pthread_create(&t, 0, brief, 0)) continue;
        pthread_join(t, &sum);
        if ((long)sum != 499500) {
            printf("a sum of %ld\n", (long)sum);
            exit(1);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    static pthread_t t[4096];
    if (argc < 4) return 2;
    work_for(argv[1]);
    int computing = atoi(argv[2]), starting = atoi(argv[3]);
    for (long i = 0; i < computing + starting; i++) pthread_create(t + i, 0, i < computing ? compute : start, (void *)i);
    long sum = 0;
    for (int i = 0; i < computing + starting; i++) {
        void *n;
        pthread_join(t[i], &n);
        sum += (long)n;
    }
    puts(sum == total ? "good" : "bad");
    return sum != total;
}
