// System calls outside of one range raise SIGSYS (PR_SET_SYSCALL_USER_DISPATCH): the handler counts them for some seconds.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile char selector;
static volatile int seen;

static void handler(int s, siginfo_t *i, void *c)
{
    selector = 0;
    seen++;
    ((ucontext_t *)c)->uc_mcontext.gregs[REG_RAX] = 4242;
}

int main(void)
{
    struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGSYS, &a, 0);
    if (prctl(59, 1, 0, 0, &selector)) {
        puts("good");
        return 0;
    }
    int calls = 0, right = 0;
    for (time_t end = time(0) + 6; time(0) < end; calls++) {
        selector = 1;
        long x = syscall(SYS_getpid);
        selector = 0;
        right += x == 4242;
    }
    puts(calls == right && seen == calls ? "good" : "bad");
    return 0;
}
