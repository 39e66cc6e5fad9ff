// Threads that wait, each in one way, and check how long they did and what they were told.
// argv: seconds, or until SIGTERM, and the most that a wait of 0.3 s may take.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "until.h"

static double longest;
static volatile int bad;
static int quiet[2], told[2];

// Calls that cannot be continued are made again with their whole time.
static void check(const char *what, double start, double most, int ok) {
    double took = now() - start;
    if (!ok || took < 0.2995 || took > most) {
        printf("%s: %f s, as told: %d, errno %d\n", what, took, ok, errno);
        bad = 1;
    }
}

#define WAITER(name, most, setup, call, answer) \
    static void *name(void *unused) {           \
        (void)unused;                           \
        setup;                                  \
        while (now() < until) {                 \
            double start = now();               \
            errno = 0;                          \
            long r = call;                      \
            check(#name, start, most, answer);  \
        }                                       \
        return 0;                               \
    }
#define T ((struct timespec){0, 300000000})

static int word = 1;
static long until_then(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += 300000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
}
static long selecting(void) {
    struct timeval t = {0, 300000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(quiet[0], &set);
    return select(quiet[0] + 1, &set, 0, 0, &t);
}
static long polling_(void) {
    struct pollfd f = {quiet[0], POLLIN, 0};
    return poll(&f, 1, 300);
}
static long waiting(void) {
    struct epoll_event v = {EPOLLIN, {0}};
    int e = epoll_create1(0);
    epoll_ctl(e, EPOLL_CTL_ADD, quiet[0], &v);
    long r = epoll_wait(e, &v, 1, 300);
    close(e);
    return r;
}
WAITER(sleeping, longest, , nanosleep(&T, 0), r == 0)
WAITER(absolute, longest, , until_then(), r == 0)
WAITER(futex, longest, , syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &T, 0, 0), r == -1 && errno == ETIMEDOUT)
WAITER(polling, longest, , polling_(), r == 0)
WAITER(selecting_, longest, , selecting(), r == 0)
// The first thread's signal may come while that thread has another one pending, and the kernel would choose this one.
WAITER(masked, longest, sigset_t its; sigemptyset(&its); sigaddset(&its, SIGTERM), ppoll(0, 0, &T, &its), r == 0)
WAITER(epoll, 1e9, , waiting(), r == 0)
WAITER(signals, 1e9, sigset_t m; sigemptyset(&m); sigaddset(&m, SIGUSR2), sigtimedwait(&m, 0, &T), r == -1 && errno == EAGAIN)

static void *reading(void *unused) {
    (void)unused;
    char c;
    do {
        ssize_t r = read(told[0], &c, 1);
        if (r != 1 || c != 'x') {
            printf("read: %zd, errno %d\n", r, errno);
            bad = 1;
        }
    } while (now() < until);
    return 0;
}

int main(int argc, char **argv) {
    work_for(argv[1]);
    longest = argc > 2 ? atof(argv[2]) : 1;
    sigset_t m;
    sigemptyset(&m);
    sigaddset(&m, SIGUSR2);
    // That one is for this thread alone: it interrupts no wait that is checked.
    sigaddset(&m, SIGTERM);
    sigprocmask(SIG_BLOCK, &m, 0);
    if (pipe(quiet) || pipe(told)) return 2;
    void *(*all[])(void *) = {sleeping, absolute, futex, polling, selecting_, masked, epoll, signals, reading};
    pthread_t t[9];
    for (int i = 0; i < 9; i++) pthread_create(t + i, 0, all[i], 0);
    sigemptyset(&m);
    sigaddset(&m, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &m, 0);
    while (now() < until + 0.1) {
        usleep(50000);
        if (write(told[1], "x", 1) != 1) return 3;
    }
    // For who reads still.
    if (write(told[1], "x", 1) != 1) return 3;
    for (int i = 0; i < 9; i++) pthread_join(t[i], 0);
    puts(bad ? "bad" : "good");
    return bad;
}
