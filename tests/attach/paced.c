// Works for so many milliseconds of processor time as its first argument says, in rounds of about a millisecond, and then says how many rounds there were.
// With a second argument it executes itself so often in children, one after the other, and does nothing else.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long sum;

__attribute__((noinline)) static void leaf(long n) { sum += n; }

__attribute__((noinline)) static void turn(long n) {
    for (long i = 0; i < n; i++) leaf(i);
}

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
    for (int n = 0; argc > 2 && n < atoi(argv[2]); n++) {
        if (fork() == 0) {
            execl(argv[0], argv[0], argv[1], (char *)0);
            _exit(1);
        }
        wait(NULL);
    }
    if (argc > 2) return 7;
    long rounds = 0, random = 1;
    for (double end = cpu() + atof(argv[1]); cpu() < end; rounds++) {
        // Of different lengths: equal ones would keep step with the bursts.
        random = (random * 1103515245 + 12345) & 0x7fffffff;
        turn(200000 + random % 400000);
    }
    printf("%ld\n", rounds);
    return 0;
}
