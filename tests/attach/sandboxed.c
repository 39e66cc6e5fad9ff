// A program in a sandbox as browsers have it: few system calls, with few arguments, the process itself as the only one that gets signals.
// Threads compute, generate code, handle signals and start others.
// argv: seconds, or until SIGTERM; what becomes of other calls: kill, errno or trap, or stacked: two filters, or late: a filter that is set at SIGUSR2.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "until.h"

#define ANY -1
#define SELF 0xffffffff
// A call that is allowed where an argument, as far as the mask says, has one of some values.
static const struct rule {
    int number, argument;
    unsigned mask, values[8], count;
} rules[] = {
    {SYS_read, ANY}, {SYS_write, ANY}, {SYS_close, ANY}, {SYS_fstat, ANY},
    {SYS_munmap, ANY}, {SYS_brk, ANY}, {SYS_mremap, ANY},
    {SYS_mmap, 3, ~(unsigned)(MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE | MAP_FIXED), {0}, 1},
    {SYS_mprotect, 2, ~7u, {0}, 1},
    {SYS_madvise, 2, ~0u, {MADV_DONTNEED, MADV_FREE}, 2},
    {SYS_rt_sigaction, ANY}, {SYS_rt_sigprocmask, ANY}, {SYS_rt_sigreturn, ANY}, {SYS_sigaltstack, ANY},
    {SYS_restart_syscall, ANY}, {SYS_sched_yield, ANY}, {SYS_sched_getaffinity, ANY}, {SYS_rseq, ANY}, {SYS_getrandom, ANY},
    {SYS_getpid, ANY}, {SYS_gettid, ANY}, {SYS_getuid, ANY}, {SYS_exit, ANY}, {SYS_exit_group, ANY},
    {SYS_clone, ANY}, {SYS_futex, 1, ~(128u | 256u), {0, 1, 3, 4, 5, 9, 10}, 7},
    {SYS_clock_gettime, 0, ~0u, {0, 1, 2, 3}, 4}, {SYS_clock_nanosleep, 0, ~0u, {0, 1}, 2},
    {SYS_tgkill, 0, ~0u, {SELF}, 1}, {SYS_rt_tgsigqueueinfo, 0, ~0u, {SELF}, 1},
};
static const int absent[] = {SYS_clone3, SYS_set_robust_list};
static const char *how;
static volatile int is_late, is_filtered;

static void set_filter(unsigned refused) {
    static struct sock_filter f[512];
    int n = 0;
#define PUT(...) f[n++] = (struct sock_filter)__VA_ARGS__
#define LOAD(at) PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at))
#define IS(k, yes, no) PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no))
#define RET(k) PUT(BPF_STMT(BPF_RET | BPF_K, k))
    LOAD(offsetof(struct seccomp_data, arch));
    IS(AUDIT_ARCH_X86_64, 1, 0);
    RET(SECCOMP_RET_KILL_PROCESS);
    LOAD(offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < sizeof absent / sizeof *absent; i++) {
        IS(absent[i], 0, 1);
        RET(SECCOMP_RET_ERRNO | ENOSYS);
    }
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *r = rules + i;
        if (r->argument == ANY) {
            IS(r->number, 0, 1);
            RET(SECCOMP_RET_ALLOW);
            continue;
        }
        IS(r->number, 0, 3 + 2 * r->count);
        LOAD(offsetof(struct seccomp_data, args) + 8 * r->argument);
        PUT(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask));
        for (unsigned v = 0; v < r->count; v++) {
            IS(r->values[v] == SELF ? (unsigned)getpid() : r->values[v], 0, 1);
            RET(SECCOMP_RET_ALLOW);
        }
        RET(refused);
    }
    RET(refused);
    struct sock_fprog program = {n, f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) {
        perror("filter");
        _exit(126);
    }
}

// A second filter, which other code of the program has set.
static void set_another(void) {
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, f};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) _exit(125);
}

static __thread volatile long reported, handled;
static void on_report(int s, siginfo_t *i, void *c) {
    ((ucontext_t *)c)->uc_mcontext.gregs[REG_RAX] = i->si_syscall == SYS_getpgrp ? 4242 : -ENOSYS;
    // No other call is the program's.
    if (i->si_syscall != SYS_getpgrp) { char text[] = "reported: 000\n"; for (int n = i->si_syscall, at = 12; n; n /= 10) text[at--] = '0' + n % 10; write(1, text, sizeof text - 1); _exit(3); }
    reported++;
}
static void on_signal(int s, siginfo_t *i, void *c) { handled++; }
static void on_late(int s) { is_late = 1; }
static int answer(long n) {
    if (!strcmp(how, "trap")) return n == 4242;
    if (!strcmp(how, "errno") || !strcmp(how, "stacked")) return n == -1;
    return 1;
}

// Code that returns a number, in memory that was never code before, and in memory that is written again and again.
static int generated(unsigned char *again, int number) {
    unsigned char code[] = {0xb8, number, number >> 8, 0, 0, 0xc3};
    unsigned char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(p, code, sizeof code);
    mprotect(p, 4096, PROT_READ | PROT_EXEC);
    int got = ((int (*)(void))p)();
    munmap(p, 4096);
    memcpy(again, code, sizeof code);
    return got == number && ((int (*)(void))again)() == number;
}

static void *brief(void *unused) {
    long n = 0;
    for (int i = 0; i < 1000; i++) n += i;
    return (void *)n;
}

static unsigned char *pages[3];

static void *work(void *seed) {
    unsigned char *again = pages[(long)seed];
    unsigned long x = (long)seed, sum = 0;
    long calls = 0, right = 0, sent = 0;
    int trapped = !strcmp(how, "trap"), may_ask = strcmp(how, "kill") && strcmp(how, "late");
    if ((long)seed == 1) {
        sigset_t all;
        sigfillset(&all);
        sigdelset(&all, SIGSYS);
        sigdelset(&all, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &all, 0);
    }
    for (int i = 0; now() < until; i++) {
        for (int n = 0; n < 20000; n++) {
            x = x * 6364136223846793005ul + 1;
            if (x >> 63) sum++;
        }
        int asks = may_ask && is_filtered;
        calls += 1 + asks;
        right += generated(again, i & 0x7fff);
        if (asks) right += answer(syscall(SYS_getpgrp));
        if (i % 8 == 0) sent++, syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
        if (i % 16 == 0) {
            pthread_t t;
            void *n;
            if (pthread_create(&t, 0, brief, 0)) return 0;
            pthread_join(t, &n);
            right += (long)n == 499500, calls++;
        }
    }
    return (void *)(long)(calls == right && sent == handled && (!trapped || reported > 0));
}

int main(int argc, char **argv) {
    pthread_t t[3];
    if (argc < 3) return 2;
    how = argv[2];
    work_for(argv[1]);
    struct sigaction report = {.sa_sigaction = on_report, .sa_flags = SA_SIGINFO}, own = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &report, 0);
    sigaction(SIGUSR1, &own, 0);
    signal(SIGUSR2, on_late);
    for (int i = 0; i < 3; i++) pages[i] = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < 2; i++) pthread_create(t + i, 0, work, (void *)i);
    if (!strcmp(how, "stacked")) set_another();
    if (!strcmp(how, "late")) while (!is_late && now() < until) nanosleep(&(struct timespec){0, 5000000}, 0);
    set_filter(!strcmp(how, "trap") ? SECCOMP_RET_TRAP : !strcmp(how, "errno") || !strcmp(how, "stacked") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS);
    is_filtered = 1;
    pthread_create(t + 2, 0, work, (void *)2);
    int good = 1;
    for (int i = 0; i < 3; i++) {
        void *its;
        pthread_join(t[i], &its);
        good &= its != 0;
    }
    write(1, good ? "good\n" : "bad\n", good ? 5 : 4);
    _exit(0);
}
