// Threads that wait, each in a way of its own, below functions of its own; and one that computes all the while.
// Prints for each function how often it has waited and for how many nanoseconds, by its own clock.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))

static int rounds = 20;
static volatile int over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int turns;
static int ends[2];

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void said(const char *name, long waits, long nanos) {
    char line[100];
    int n = snprintf(line, sizeof line, "%s %ld %ld\n", name, waits, nanos);
    if (write(1, line, n) != n) abort();
}

static void pause_for(long nanos) {
    struct timespec t = {0, nanos};
    nanosleep(&t, 0);
}

// Each is called once for each wait; what is after the call keeps it from being a tail call.
static KEPT long sleeps(void) {
    long from = now();
    pause_for(3000000);
    return now() - from;
}

static KEPT long polls(void) {
    long from = now();
    if (poll(0, 0, 4)) abort();
    return now() - from;
}

static KEPT long locks(void) {
    long from = now();
    pthread_mutex_lock(&lock);
    long nanos = now() - from;
    pthread_mutex_unlock(&lock);
    return nanos;
}

static KEPT long is_told(int n) {
    long from = now();
    pthread_mutex_lock(&turn);
    while (turns <= n) pthread_cond_wait(&told, &turn);
    pthread_mutex_unlock(&turn);
    return now() - from;
}

static KEPT long reads(void) {
    char c;
    long from = now();
    if (read(ends[0], &c, 1) != 1) abort();
    return now() - from;
}

static void *sleeper(void *unused) {
    long nanos = 0;
    for (int n = 0; n < rounds; n++) nanos += sleeps();
    said("sleeps", rounds, nanos);
    return 0;
}

static void *poller(void *unused) {
    long nanos = 0;
    for (int n = 0; n < rounds; n++) nanos += polls();
    said("polls", rounds, nanos);
    return 0;
}

static void *locker(void *unused) {
    long nanos = 0;
    for (int n = 0; n < rounds; n++) {
        nanos += locks();
        pause_for(2000000);
    }
    said("locks", rounds, nanos);
    return 0;
}

static void *listener(void *unused) {
    long nanos = 0;
    for (int n = 0; n < rounds; n++) nanos += is_told(n);
    said("is_told", rounds, nanos);
    return 0;
}

static void *reader(void *unused) {
    long nanos = 0;
    for (int n = 0; n < rounds; n++) nanos += reads();
    said("reads", rounds, nanos);
    return 0;
}

static KEPT void *computes(void *unused) {
    volatile unsigned long sum = 0;
    while (!over)
        for (int n = 0; n < 1000; n++) sum += n;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    if (pipe(ends)) return 1;
    void *(*starts[])(void *) = {sleeper, poller, locker, listener, reader};
    enum { COUNT = sizeof starts / sizeof *starts };
    pthread_t threads[COUNT], computing;
    pthread_create(&computing, 0, computes, 0);
    for (int n = 0; n < COUNT; n++) pthread_create(threads + n, 0, starts[n], 0);
    // Holds the lock, and tells and writes, so that each has to wait.
    for (int n = 0; n < rounds; n++) {
        pthread_mutex_lock(&lock);
        pause_for(4000000);
        pthread_mutex_unlock(&lock);
        pause_for(1000000);
        pthread_mutex_lock(&turn);
        turns++;
        pthread_cond_signal(&told);
        pthread_mutex_unlock(&turn);
        if (write(ends[1], "", 1) != 1) return 1;
    }
    for (int n = 0; n < COUNT; n++) pthread_join(threads[n], 0);
    over = 1;
    pthread_join(computing, 0);
    return 0;
}
