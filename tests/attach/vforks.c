// Works for 60 ms of processor time, then waits in a vfork for half a second, in which no tracer can stop it: so often as its argument says.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
    volatile long sum = 0;
    for (int n = 0; n < atoi(argv[1]); n++) {
        double end = cpu() + 60;
        while (cpu() < end)
            for (int i = 0; i < 1000; i++) sum += i;
        if (vfork() == 0) {
            struct timespec half = {0, 500000000};
            nanosleep(&half, NULL);
            _exit(0);
        }
        wait(NULL);
    }
    puts(sum > 0 ? "done" : "no sum");
    return argc > 2;
}
