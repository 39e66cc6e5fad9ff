// The time for which a program works: so many seconds, or until SIGTERM.
#include <signal.h>
#include <stdlib.h>
#include <time.h>

static volatile double until;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void stop(int signal) {
    (void)signal;
    until = 0;
}

// Works for as many seconds as the word says, or one.
static void work_for(const char *seconds) {
    until = now() + (seconds ? atof(seconds) : 1);
    signal(SIGTERM, stop);
}
