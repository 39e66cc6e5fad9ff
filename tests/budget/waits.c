// Computes, and makes system calls that a signal would end with EINTR whatever its handler's flags, in several threads.
// Tells how many did.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static uint64_t compute(uint64_t n) { uint64_t s = n; while (n--) s = s * 31 + (s >> 7); return s; }
static volatile uint64_t sink;
static int turns, interrupted;

static void *run(void *unused)
{
    int set = epoll_create1(0), wrong = 0;
    struct epoll_event event;
    struct timespec nap = { 0, 200000 };
    for (int i = 0; i < turns; i++) {
        sink = compute(300000);
        if (epoll_wait(set, &event, 1, 1) < 0 && errno == EINTR) wrong++;
        sink = compute(100000);
        if (nanosleep(&nap, 0) < 0 && errno == EINTR) wrong++;
        if (poll(0, 0, 1) < 0 && errno == EINTR) wrong++;
    }
    __atomic_add_fetch(&interrupted, wrong, __ATOMIC_SEQ_CST);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];
    turns = atoi(argv[1]);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    printf("%d interrupted\n", interrupted);
    return 0;
}
