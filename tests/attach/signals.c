// A timer of 1 kHz with a handler on an alternate stack, and signals sent while they are blocked. The
// handler looks at what it is shown. argv: seconds, or until SIGTERM.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include "until.h"

static volatile long alarms, sent;
static volatile int wrong;
static char *stack;
extern char __executable_start, etext;

static void on_alarm(int signal, siginfo_t *info, void *frame) {
    (void)signal, (void)info;
    ucontext_t *c = frame;
    char here;
    alarms++;
    if (&here < stack || &here > stack + 65536) wrong = 1;
    // The program, its libraries and the vDSO are at the ends of the address space.
    if ((unsigned long)c->uc_mcontext.gregs[REG_RIP] >> 44 == 1) wrong = 2;
    if (c->uc_stack.ss_sp != stack) wrong = 3;
}

static void on_sent(int signal) {
    (void)signal;
    sent++;
}

int main(int argc, char **argv) {
    work_for(argv[1]);
    stack = malloc(65536);
    stack_t ss = {stack, 0, 65536};
    sigaltstack(&ss, 0);
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = on_alarm;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigaction(SIGALRM, &a, 0);
    a.sa_handler = on_sent;
    a.sa_flags = 0;
    sigaction(SIGUSR1, &a, 0);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, 0);
    sigset_t all, old;
    sigfillset(&all);
    long n = 0, raised = 0;
    while (now() < until) {
        raised++;
        sigprocmask(SIG_BLOCK, &all, &old);
        raise(SIGUSR1);
        long before = sent;
        for (int i = 0; i < 3000; i++) n += i & raised;
        if (before != sent) wrong = 4;
        sigprocmask(SIG_SETMASK, &old, 0);
        stack_t is;
        struct sigaction q;
        sigaltstack(0, &is);
        sigaction(SIGALRM, 0, &q);
        if (is.ss_sp != stack || is.ss_flags || q.sa_sigaction != on_alarm) wrong = 5;
    }
    printf("%s\n", wrong || sent != raised || !alarms ? "bad" : "good");
    if (wrong || sent != raised) printf("wrong %d, sent %ld of %ld\n", wrong, sent, raised);
    return wrong || sent != raised;
}
