// Faults again and again, and handles that; another signal of faults is ignored. With an argument more, has mappings of its own until the
// kernel gives no more but this many, up to SIGUSR1.
// argv: seconds, or until SIGTERM; mappings that are left.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, MOST = 1 << 20 };
static volatile double until;
static volatile int full;
static sigjmp_buf out;
static char *pages[MOST];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fault(int signal) { siglongjmp(out, signal); }

static void stop(int signal) {
    if (signal == SIGTERM) until = 0;
    full = 0;
}

// Neighbours differ, so that each is a mapping.
static int fill(int left) {
    int count = 0;
    while (count < MOST) {
        char *page = mmap(0, PAGE, count % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) break;
        pages[count++] = page;
    }
    // Every second one: no neighbours meet.
    for (int n = 0; n < left; n++) munmap(pages[2 * n], PAGE);
    return count;
}

int main(int argc, char **argv) {
    until = now() + (argc > 1 ? atof(argv[1]) : 1);
    signal(SIGTERM, stop);
    signal(SIGUSR1, stop);
    signal(SIGSEGV, fault);
    signal(SIGILL, fault);
    signal(SIGFPE, SIG_IGN);
    int count = 0;
    if (argc > 2) {
        full = 1;
        count = fill(atoi(argv[2]));
    }
    long bad = 0;
    while (now() < until) {
        int how = sigsetjmp(out, 1);
        if (how == 0) *(volatile int *)8 = 1;
        if (how == SIGSEGV) __asm__ volatile("ud2");
        if (how != SIGILL) bad++;
        raise(SIGFPE);
        if (!full && count) {
            while (count--) munmap(pages[count], PAGE);
            count = 0;
        }
        nanosleep(&(struct timespec){0, 1000000}, 0);
    }
    puts(bad ? "bad" : "good");
    return bad != 0;
}
