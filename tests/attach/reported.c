// A filter has one system call reported to the program (SIGSYS): two threads make it for some seconds, and the handler answers in its place.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static __thread volatile int seen;

static void handler(int s, siginfo_t *i, void *c)
{
    greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs;
    const unsigned char *after = i->si_call_addr;
    seen += (long)after == g[REG_RIP] && g[REG_RCX] == g[REG_RIP] && after[-2] == 0x0f && after[-1] == 0x05
        && i->si_syscall == SYS_getpgrp && g[REG_RAX] == SYS_getpgrp;
    g[REG_RAX] = 4242;
}

static void *work(void *unused)
{
    int calls = 0, right = 0;
    volatile long sum = 0;
    for (time_t end = time(0) + 8; time(0) < end; calls++) {
        right += syscall(SYS_getpgrp) == 4242;
        for (int i = 0; i < 1000; i++)
            sum += i;
    }
    return (void *)(long)(calls == right && seen == calls);
}

int main(void)
{
    struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGSYS, &a, 0);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgrp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { 4, filter };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 126;
    pthread_t other;
    void *good;
    pthread_create(&other, 0, work, 0);
    int first = work(0) != 0;
    pthread_join(other, &good);
    puts(first && good ? "good" : "bad");
    return 0;
}
