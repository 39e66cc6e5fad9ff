// build: -O2 -w -pthread
// Processes that run on in their maker's memory, killed at random points while all their threads execute new code: beside their maker, or as it waits for them.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { STACK = 65536, CODE = 1 << 20, THREADS = 3, ROUNDS = 2, PROCESSES = 6 };
static volatile int *pid;
static char *map(int prot, int flags, int size) { return mmap(0, size, prot, flags | MAP_ANONYMOUS, -1, 0); }
static char *stack(void) { return map(3, MAP_PRIVATE, STACK) + STACK; }
// Executes functions that nobody has executed before, and asks for dispositions, until it is killed.
static int work(void *a) {
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_handler = SIG_IGN;
  for (char *code = a, *at = code;; at += 16) {
    if (at == code + CODE) { code = at = map(7, MAP_PRIVATE, CODE); }
    memcpy(at, "\xb8\1\0\0\0\xc3", 6);
    if (((int (*)(void))at)() != 1) abort();
    sigaction(SIGUSR1, &sa, 0);
  }
}
static int child(void *code) {
  for (long i = 1; i < THREADS; i++) clone(work, stack(), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, map(7, MAP_PRIVATE, CODE));
  *pid = syscall(SYS_getpid);
  return work(code);
}
static void doze(long n) { struct timespec t = {0, n}; nanosleep(&t, 0); }
static void kill_it(void) { while (!*pid) doze(10000); doze(random() % 2000000); kill(*pid, SIGKILL); }
static void round_of(int n) {
  srandom(time(0) * 64 + getpid());
  for (int i = 0; i < PROCESSES; i++) {
    int s = 0, waits = (i + n) & 1, killer = 0, p; *pid = 0;
    if (waits && !(killer = fork())) { kill_it(); _exit(0); }
    p = clone(child, stack(), SIGCHLD | CLONE_VM | CLONE_FS | CLONE_FILES | (waits ? CLONE_VFORK : 0) | (i & 2 ? CLONE_SIGHAND : 0), map(7, MAP_PRIVATE, CODE));
    if (!waits) kill_it();
    if (waitpid(p, &s, 0) != p || s != SIGKILL) printf("status %#x\n", s);
    if (killer && (waitpid(killer, &s, 0) != killer || s)) printf("killer %#x\n", s);
  }
}
int main(void) {
  pid = (void *)map(3, MAP_SHARED, 4096);
  for (int n = 0; n < ROUNDS; n++) {
    int s = 0, p = fork(); if (!p) { round_of(n); _exit(7); }
    waitpid(p, &s, 0); printf("round %d: %#x\n", n, s);
  }
}
