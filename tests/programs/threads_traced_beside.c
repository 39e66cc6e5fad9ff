// build: -O2 -w -pthread
// Threads that call ever new code are stopped again and again by a process in the same memory, which calls new code meanwhile: so does LeakSanitizer at a program's end.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { THREADS = 2, ROUNDS = 150, PAGE = 4096, FUNCTIONS = 256 };
static pid_t tids[THREADS]; static atomic_int ready, done; static int stops, wrong;
// mov $n,%eax; ret
static unsigned char *made(void) {
  unsigned char *p = mmap(0, PAGE, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < FUNCTIONS; i++) { unsigned char f[] = {0xb8, i, 0, 0, 0, 0xc3}; memcpy(p + 16 * i, f, 6); }
  return p;
}
static int called(unsigned char *p, int n) { return ((int (*)(void))(p + 16 * n))(); }
static void *work(void *x) {
  int bad = 0; tids[(long)x] = syscall(SYS_gettid); ready++;
  while (!done) { unsigned char *p = made(); for (int i = 0; i < FUNCTIONS; i++) bad += called(p, i) != i; munmap(p, PAGE); }
  return (void *)(long)bad;
}
static int stop_all(void *x) {
  for (int n = 0; n < ROUNDS; n++) {
    int s, by = n % 2; pid_t t = tids[n / 2 % THREADS];
    if (by ? ptrace(PTRACE_SEIZE, t, 0, 0) || ptrace(PTRACE_INTERRUPT, t, 0, 0) : ptrace(PTRACE_ATTACH, t, 0, 0)) { wrong = errno; break; }
    if (waitpid(t, &s, __WALL) != t || !WIFSTOPPED(s)) { wrong = 1000 + s; break; }
    unsigned char *p = made(); for (int i = 0; i < 8; i++) wrong += called(p, i) != i; munmap(p, PAGE);
    if (ptrace(PTRACE_DETACH, t, 0, 0)) { wrong = errno; break; }
    stops++;
  }
  return 0;
}
int main(void) {
  pthread_t threads[THREADS]; static char stack[1 << 16]; int s; void *bad;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  for (long i = 0; i < THREADS; i++) pthread_create(threads + i, 0, work, (void *)i);
  while (ready < THREADS) sched_yield();
  pid_t p = clone(stop_all, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, 0);
  waitpid(p, &s, __WALL); done = 1;
  for (int i = 0; i < THREADS; i++) { pthread_join(threads[i], &bad); wrong += (long)bad; }
  printf("stops %d, wrong %d, tracer %#x\n", stops, wrong, s);
}
