/* Starts children one after the other, each of which executes this program again and computes for a moment, until it gets SIGUSR1.
   Prints how many ended as they should. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 100000 };

static volatile sig_atomic_t asked;
static volatile long sum;

static void on_signal(int signal) {
    (void)signal;
    asked = 1;
}

static void compute(void) {
    for (int i = 0; i < ROUNDS; i++)
        sum += i;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1 && argv[1][0] == 'c') {
        compute();
        return 0;
    }
    signal(SIGUSR1, on_signal);
    puts("ready");
    fflush(stdout);
    long count = 0;
    while (!asked) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", "executing", "child", (char *)NULL);
            _exit(1);
        }
        if (waitpid(child, &status, 0) != child || status != 0) {
            printf("child %ld ended with %x\n", count, status);
            return 2;
        }
        count++;
    }
    printf("%ld good\n", count);
    return 0;
}
