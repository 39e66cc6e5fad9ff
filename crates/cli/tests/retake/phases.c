/* Two kinds of work, each for so many milliseconds of a thread's CPU time: `phases JUMPS LOOP [THREADS [fork|exec]]`. The first
 * has a call that cannot be predicted, the second is a loop. A timer's signals are handled meanwhile. Ends with 9 if all that was
 * computed is what it should be. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;
static volatile long few = 1000, many = 100000;
static long jumps_for, loop_for;

static void tick(int signal) { ticks++; }

static __thread long began;

static long now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static long spent(void) { return now() - began; }

#define OP(n) \
    static __attribute__((noinline)) unsigned long op##n(unsigned long x) { return x * (2 * n + 1) + (x >> (n % 7 + 1)); }
OP(0) OP(1) OP(2) OP(3) OP(4) OP(5) OP(6) OP(7) OP(8) OP(9) OP(10) OP(11) OP(12) OP(13) OP(14) OP(15)
static unsigned long (*const ops[])(unsigned long) = { op0, op1, op2, op3, op4, op5, op6, op7, op8, op9, op10, op11, op12, op13, op14, op15 };

static __attribute__((noinline)) unsigned long jumps(long n, unsigned long x)
{
    unsigned long sum = 0;
    while (n--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        sum += ops[x >> 60](x);
    }
    return sum;
}

static __attribute__((noinline, aligned(4096))) unsigned long loop(long n, unsigned long x)
{
    while (n--) {
#define STEP x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        STEP STEP STEP STEP STEP STEP STEP STEP
    }
    return x;
}

/* How often it did not come to what it first did. */
static void *work(void *from)
{
    unsigned long x = 88172645463325252UL + (unsigned long)from, bad = 0;
    unsigned long first = jumps(few, x), second = loop(many, x);
    while (spent() < jumps_for)
        for (int n = 0; n < 50; n++) bad += jumps(few, x) != first;
    while (spent() < jumps_for + loop_for)
        for (int n = 0; n < 5; n++) bad += loop(many, x) != second;
    return (void *)bad;
}

int main(int argc, char **argv)
{
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    const char *how = argc > 4 ? argv[4] : "";
    struct itimerval every = { { 0, 3000 }, { 0, 3000 } };
    pthread_t others[16];
    unsigned long bad = 0;
    pid_t pid = 0;
    int status = 0;
    /* The clock goes on in who is executed. */
    began = now();
    jumps_for = atol(argv[1]);
    loop_for = atol(argv[2]);
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, NULL);
    if (!strcmp(how, "fork")) pid = fork();
    for (long n = 1; n < threads; n++) pthread_create(&others[n], NULL, work, (void *)n);
    bad += (unsigned long)work(NULL);
    for (long n = 1; n < threads; n++) {
        void *its;
        pthread_join(others[n], &its);
        bad += (unsigned long)its;
    }
    if (!strcmp(how, "exec") && !bad) {
        /* A timer goes on, its handler does not. */
        memset(&every, 0, sizeof every);
        setitimer(ITIMER_REAL, &every, NULL);
        execl(argv[0], argv[0], argv[1], argv[2], argv[3], NULL);
        return 127;
    }
    if (pid) {
        while (waitpid(pid, &status, 0) < 0) {}
        bad += status != 9 << 8;
    }
    if (jumps_for + loop_for > 50 && !ticks && (pid || strcmp(how, "fork"))) bad++;
    printf("%s%lu\n", pid ? "parent " : "", bad);
    return bad ? 1 : 9;
}
