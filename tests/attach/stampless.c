// Three threads work; two of them may neither read the time stamp counter nor ask what the processor is, each by its own word, as the kernel
// keeps it for each thread. So no clock of theirs is the vDSO's.
// argv: seconds, or until SIGTERM; anything more forbids the first thread to ask what the processor is, too.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile double until;
static volatile int bad;

static double now(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void stop(int signal) {
    (void)signal;
    until = 0;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void work(void) {
    while (now() < until) {
        int numbers[1000];
        for (int n = 0; n < 1000; n++) numbers[n] = n * 7919 % 1000;
        qsort(numbers, 1000, sizeof *numbers, compare);
        for (int n = 0; n < 1000; n++)
            if (numbers[n] != n) bad = 1;
    }
}

static void *forbidden(void *unused) {
    (void)unused;
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) bad = 1;
    // Some processors do not know of it.
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    work();
    return 0;
}

int main(int argc, char **argv) {
    until = now() + (argc > 1 ? atof(argv[1]) : 1);
    signal(SIGTERM, stop);
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) pthread_create(threads + n, 0, forbidden, 0);
    if (argc > 2) syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    work();
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
    puts(bad ? "bad" : "good");
    return bad;
}
