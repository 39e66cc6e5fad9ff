/* Interrupts that a program handles itself: a signal for each store that a query tells of, delivered behind the store and in front of the
 * next instruction, in the thread that made it; while the thread blocks it, it waits. A timer's signals come meanwhile. Two threads, and
 * then a child that asks for itself.
 *
 *   handled STORES
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <ucontext.h>
#include <unistd.h>

#include "../../include/trommel.h"

#define INTERRUPT (SIGRTMIN + 3)

extern char behind[];
static unsigned long stores;
static __thread volatile unsigned long cell, handled, wrong, early;
static volatile unsigned long ticks;

/* Returns 1. */
__attribute__((noinline, noclone)) static unsigned long store(volatile unsigned long *to, unsigned long value)
{
    unsigned long step;
    __asm__ volatile("xorl %%eax, %%eax\n"
                     "movq %2, (%1)\n"
                     ".globl behind\n"
                     "behind: addq $1, %%rax"
                     : "=&a"(step)
                     : "r"(to), "r"(value)
                     : "memory", "cc");
    return step;
}

static void on_tick(int signal)
{
    (void)signal;
    ticks++;
}

static void on_interrupt(int signal, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    unsigned long value = (unsigned long)info->si_value.sival_ptr;
    handled++;
    wrong += signal != INTERRUPT || info->si_code != SI_QUEUE || info->si_pid != getpid();
    wrong += value != handled;
    /* Made, and nothing behind it. */
    if (!early) wrong += cell != value || at->uc_mcontext.gregs[REG_RAX] != 0 || at->uc_mcontext.gregs[REG_RIP] != (greg_t)behind;
}

static void count(unsigned long n)
{
    unsigned long steps = 0;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, INTERRUPT);
    for (unsigned long i = 1; i <= n; i++) {
        /* The last three while it is blocked. */
        if (i == n - 2) {
            pthread_sigmask(SIG_BLOCK, &set, &old);
            wrong += handled != i - 1;
            early = 1;
        }
        steps += store(&cell, i);
    }
    wrong += handled != n - 3;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    wrong += steps != n;
}

static void *run(void *unused)
{
    (void)unused;
    count(stores);
    printf("%lu handled, %lu wrong\n", handled, wrong);
    fflush(stdout);
    return NULL;
}

int main(int arguments, char **argument)
{
    struct sigaction action;
    struct itimerval timer = {{0, 700}, {0, 700}};
    pthread_t other;
    int status = 1;
    pid_t child;
    long answer;
    if (arguments != 2) return 2;
    stores = strtoul(argument[1], NULL, 10);
    if (trommel_interrupts(INTERRUPT) == TROMMEL_DONE) return 3;
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    action.sa_sigaction = on_interrupt;
    sigaction(INTERRUPT, &action, NULL);
    action.sa_flags = SA_RESTART;
    action.sa_handler = on_tick;
    sigaddset(&action.sa_mask, INTERRUPT);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    answer = trommel_interrupts(INTERRUPT);
    printf("answered %ld, %ld, %ld\n", answer, trommel_interrupts(SIGUSR2), trommel_interrupts(200));
    fflush(stdout);
    if (answer != TROMMEL_DONE) return 0;
    if (pthread_create(&other, NULL, run, NULL) != 0) return 4;
    pthread_join(other, NULL);
    run(NULL);
    child = fork();
    if (child == 0) {
        /* Trommel's, as it has not asked. */
        store(&cell, 1);
        wrong = handled != stores;
        cell = handled = early = 0;
        if (trommel_interrupts(INTERRUPT) != TROMMEL_DONE) return 5;
        setitimer(ITIMER_REAL, &timer, NULL);
        run(NULL);
        return 0;
    }
    waitpid(child, &status, 0);
    trommel_interrupts(0);
    store(&cell, 1);
    printf("%lu handled in the end, child %d\n", handled, status);
    return ticks == 0;
}
