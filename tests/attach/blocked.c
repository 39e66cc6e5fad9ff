// Threads that block SIGSEGV change code, each its own: one for good, one now and then, one in a handler that blocks all. Another waits for
// a SIGSEGV that is sent, and answers.
// argv: seconds, or until SIGTERM.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "until.h"

static volatile int bad, sent, answered;

static void expect(int so, const char *what) {
    if (!so && !bad) {
        bad = 1;
        puts(what);
        fflush(stdout);
    }
}

static sigset_t mask(int how, int signal) {
    sigset_t set, old;
    sigemptyset(&set);
    if (signal < 0) sigfillset(&set);
    else if (signal) sigaddset(&set, signal);
    pthread_sigmask(how, &set, &old);
    return old;
}

// A page of code, which is changed and executed.
static unsigned char *make(void) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, "\xb8\0\0\0\0\xc3", 6);
    return code;
}

static void patch(unsigned char *code, int n) {
    code[1] = n;
    code[100]++;
    expect(((int (*)(void))code)() == (n & 0xff), "code of before");
}

static void *for_good(void *unused) {
    (void)unused;
    mask(SIG_SETMASK, -1);
    unsigned char *code = make();
    for (int n = 0; now() < until; n++) patch(code, n);
    sigset_t last = mask(SIG_BLOCK, 0);
    expect(sigismember(&last, SIGSEGV), "not blocked any more");
    return 0;
}

static void *now_and_then(void *unused) {
    (void)unused;
    unsigned char *code = make();
    for (int n = 0; now() < until; n++) {
        sigset_t old = mask(n & 1 ? SIG_BLOCK : SIG_UNBLOCK, SIGSEGV);
        expect(sigismember(&old, SIGSEGV) == (n && !(n & 1)), "another mask");
        for (int k = 0; k < 20; k++) patch(code, n + k);
    }
    return 0;
}

static unsigned char *handlers;

static void handle(int signal) {
    static int n;
    (void)signal;
    sigset_t within = mask(SIG_BLOCK, 0);
    expect(sigismember(&within, SIGSEGV), "not blocked in the handler");
    patch(handlers, n++);
}

static void *handled(void *unused) {
    (void)unused;
    while (now() < until) {
        for (int k = 0; k < 50; k++) raise(SIGUSR1);
        sigset_t after = mask(SIG_BLOCK, 0);
        expect(!sigismember(&after, SIGSEGV), "blocked after the handler");
    }
    return 0;
}

static void *waits(void *unused) {
    (void)unused;
    sigset_t set = mask(SIG_SETMASK, -1);
    unsigned char *code = make();
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    struct timespec soon = {0, 100000000};
    while (now() < until) {
        patch(code, answered);
        if (sigtimedwait(&set, 0, &soon) == SIGSEGV) answered++;
    }
    return 0;
}

int main(int argc, char **argv) {
    work_for(argv[1]);
    struct sigaction action = {.sa_handler = handle};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, 0);
    handlers = make();
    void *(*work[])(void *) = {for_good, now_and_then, handled, waits};
    pthread_t threads[4];
    mask(SIG_SETMASK, SIGSEGV);
    for (int n = 0; n < 4; n++) {
        if (n == 1) mask(SIG_UNBLOCK, SIGSEGV);
        if (n == 3) mask(SIG_BLOCK, SIGSEGV);
        pthread_create(threads + n, 0, work[n], 0);
    }
    for (; now() < until; usleep(2000)) {
        if (sent == answered) {
            sent++;
            pthread_kill(threads[3], SIGSEGV);
        }
    }
    for (int n = 0; n < 4; n++) pthread_join(threads[n], 0);
    expect(answered >= sent - 1, "one that was sent is lost");
    puts(bad ? "bad" : "good");
    return bad;
}
