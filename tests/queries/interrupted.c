/* Stores of which a service is told by interrupts. With `sync` it writes the number of each store into a file (interrupting.c), and it must be
 * there when the next instruction is executed; a timer's signals come meanwhile. Two threads, and then a child that does the same.
 *
 *   interrupted FILE STORES sync|async
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int file, sync_;
static unsigned long stores;
static volatile unsigned long cells[4], ticks;

__attribute__((noinline)) static void store(unsigned who, unsigned long value) { cells[who] = value; }

static void on_tick(int signal)
{
    (void)signal;
    ticks++;
}

static void *run(void *argument)
{
    unsigned long who = (unsigned long)argument, wrong = 0;
    for (unsigned long n = 1; n <= stores; n++) {
        unsigned long seen = 0;
        store(who, who << 32 | n);
        if (pread(file, &seen, sizeof seen, who * sizeof seen) != sizeof seen) seen = 0;
        wrong += sync_ && seen != (who << 32 | n);
        /* At once, though the thread does nothing that would need the service. */
        for (time_t late = time(NULL) + 20; !sync_ && n == stores && seen != (who << 32 | n);) {
            if (time(NULL) > late) return (void *)1;
            if (pread(file, &seen, sizeof seen, who * sizeof seen) != sizeof seen) seen = 0;
        }
    }
    return (void *)wrong;
}

int main(int count, char **arguments)
{
    struct sigaction action;
    struct itimerval timer = {{0, 700}, {0, 700}};
    pthread_t other;
    void *wrong;
    int status;
    pid_t child;
    if (count != 4) return 2;
    file = open(arguments[1], O_RDONLY);
    stores = strtoul(arguments[2], NULL, 10);
    sync_ = strcmp(arguments[3], "sync") == 0;
    if (file < 0) return 3;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    if (pthread_create(&other, NULL, run, (void *)1) != 0) return 4;
    printf("%lu\n", (unsigned long)run((void *)0));
    pthread_join(other, &wrong);
    printf("%lu\n", (unsigned long)wrong);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        printf("%lu\n", (unsigned long)run((void *)2));
        return 0;
    }
    if (waitpid(child, &status, 0) != child) return 6;
    return status >> 8;
}
