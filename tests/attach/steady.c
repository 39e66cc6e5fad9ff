// Says that it is ready, waits for a byte, and does the same work for a time of the processor's. Says how often.
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile long odd, sum;

__attribute__((noinline)) static void leaf(long n) { sum += n; }

__attribute__((noinline)) static void work(void) {
    for (long i = 0; i < 30000; i++) {
        if (i % 3 == 0) odd++;
        leaf(i);
    }
}

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(void) {
    char c;
    long rounds = 0;
    if (write(1, "ready\n", 6) != 6 || read(0, &c, 1) != 1) return 1;
    for (double end = cpu() + 1.5; cpu() < end; rounds++) work();
    printf("%ld\n", rounds * 30000);
    return 0;
}
