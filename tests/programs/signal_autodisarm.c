// Handlers on an alternate stack that is off while one runs (SS_AUTODISARM): a second signal then comes on the stack that is in use. Two timers send signals all
// the time, so that some come in front of the call that returns from a handler: the stack must not be back before that is made.
// build: -O2
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

static char stack[1 << 16];
static volatile sig_atomic_t handled, wrong;

static void handler(int signal)
{
    volatile char here[64];
    memset((char *)here, signal, sizeof here);
    stack_t now;
    if (sigaltstack(0, &now) || now.ss_flags != SS_DISABLE)
        wrong = 1;
    uintptr_t at = (uintptr_t)here - (uintptr_t)stack;
    if (at >= sizeof stack)
        wrong = 2;
    for (int i = 0; i < 64; i++)
        if (here[i] != (char)signal)
            wrong = 3;
    handled++;
}

int main(void)
{
    stack_t on = { .ss_sp = stack, .ss_size = sizeof stack, .ss_flags = (int)SS_AUTODISARM };
    if (sigaltstack(&on, 0))
        return puts("no such stacks"), 0;
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART };
    sigaction(SIGPROF, &action, 0);
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = { { 0, 150 }, { 0, 150 } };
    setitimer(ITIMER_PROF, &often, 0);
    setitimer(ITIMER_REAL, &often, 0);
    uint64_t x = 1;
    while (handled < 1000)
        for (int i = 0; i < 2000; i++)
            x = x * 6364136223846793005u + 1442695040888963407u;
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_PROF, &never, 0);
    setitimer(ITIMER_REAL, &never, 0);
    stack_t after;
    sigaltstack(0, &after);
    printf("%d %d %d\n", wrong, after.ss_sp == stack, after.ss_size == sizeof stack);
    return x == 0;
}
