// build: -O2 -fno-inline -pthread | -O0 -pthread | -O2 -fno-inline -pthread -no-pie
// Calls in all forms, each with `leaf`, which costs the same wherever it is called: recursion, pointers, tail calls, longjmp, handlers,
// stacks that are switched, a thread, a forked child. tests/contexts.rs knows how often each way leads to `leaf`.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
static volatile int count;

KEEP void leaf(void) { count++; }

KEEP void twice(void) { leaf(); leaf(); }

KEEP void down(int n) { leaf(); if (n > 1) down(n - 1); count++; }

KEEP void odd(int n);
KEEP void even(int n) { leaf(); if (n) odd(n - 1); count++; }
KEEP void odd(int n) { leaf(); if (n) even(n - 1); count++; }

KEEP void first(void) { leaf(); count++; }
KEEP void second(void) { leaf(); leaf(); count++; }
static void (*volatile pointers[])(void) = {first, second, first};
KEEP void by_pointer(void) { for (int n = 0; n < 9; n++) pointers[n % 3](); count++; }

// At -O2 a jump.
KEEP void tail(void) { count++; leaf(); }
KEEP void tails(void) { for (int n = 0; n < 4; n++) { tail(); leaf(); } }

static jmp_buf back;
KEEP void deeper(int n) { leaf(); if (n) deeper(n - 1); else longjmp(back, 1); count++; }
KEEP void jumps(void) {
    for (volatile int n = 0; n < 5; n++) {
        if (!setjmp(back)) deeper(2);
        leaf();
    }
}

KEEP void handler(int s) { (void)s; leaf(); }
KEEP void raises(void) { for (int n = 0; n < 3; n++) { raise(SIGUSR1); leaf(); } }

static sigjmp_buf out;
KEEP void leaves(int s) { (void)s; leaf(); siglongjmp(out, 1); }
KEEP void alternate(void) {
    for (volatile int n = 0; n < 3; n++) {
        if (!sigsetjmp(out, 1)) raise(SIGUSR2);
        leaf();
    }
}

static ucontext_t here, there;
KEEP void body(void) { for (;;) { leaf(); leaf(); swapcontext(&there, &here); } }
KEEP void switches(void) {
    for (int n = 0; n < 6; n++) { swapcontext(&here, &there); leaf(); }
}

KEEP void *worker(void *p) { for (int n = 0; n < 7; n++) leaf(); return p; }

KEEP void in_child(void) { leaf(); leaf(); leaf(); }
KEEP void forks(void) {
    pid_t child = fork();
    if (child == 0) { in_child(); _exit(0); }
    waitpid(child, NULL, 0);
    leaf();
}

int main(void) {
    twice();
    down(6);
    even(7);
    by_pointer();
    tails();
    jumps();
    signal(SIGUSR1, handler);
    raises();
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = leaves, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &action, NULL);
    alternate();
    getcontext(&there);
    there.uc_stack.ss_sp = malloc(1 << 16);
    there.uc_stack.ss_size = 1 << 16;
    makecontext(&there, body, 0);
    switches();
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
    forks();
    leaf();
    printf("%d\n", count > 0);
    return 0;
}
