// System calls outside of one range raise SIGSYS (prctl PR_SET_SYSCALL_USER_DISPATCH), as emulators of other systems ask for.
// build: -O2 | -O0
#define _GNU_SOURCE
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
static volatile char selector;
static volatile int seen, number;
static void handler(int s, siginfo_t *i, void *c) { selector = 0; seen++; number = i->si_syscall;
    ((ucontext_t *)c)->uc_mcontext.gregs[REG_RAX] = 4242; }
int main(void) {
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, 0);
    if (prctl(59, 1, 0, 0, &selector)) { puts("not there"); return 0; }
    volatile long sum = 0;
    for (int r = 0; r < 3; r++) {
        selector = 1;
        long x = syscall(SYS_getpid + 0);
        selector = 0;
        for (int i = 0; i < 1000000; i++) sum += i * r;
        printf("call gave %ld, seen %d, number %d\n", x, seen, number);
    }
    prctl(59, 0, 0, 0, 0);
    printf("off: %s\n", getpid() > 0 ? "yes" : "no");
    return 0;
}
