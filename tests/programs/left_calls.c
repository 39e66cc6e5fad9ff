// build: -O2 -pthread | -O0 -pthread | -O2 -static -pthread
// Calls that never come back: left by longjmp, by the end of a thread, on a stack that is given up, by exit in a child and at the end.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define ALONE __attribute__((noinline))
static jmp_buf top;
static ucontext_t first, other;
static char stack[65536];
static volatile long sink;
// The code after each call has no branch, no call and no load of its own.
ALONE static long jump(long n) { if (!n) longjmp(top, 1); long r = jump(n - 1); __asm__ volatile("lea 1(%0), %0\n nop\n nop" : "+r"(r)); return r; }
ALONE static long leave(long n) { if (!n) pthread_exit((void *)7); long r = leave(n - 1); __asm__ volatile("lea 1(%0), %0\n nop" : "+r"(r)); return r; }
ALONE static long over(long n) { if (!n) exit(0); long r = over(n - 1); __asm__ volatile("lea 1(%0), %0\n nop\n nop\n nop" : "+r"(r)); return r; }
ALONE static long turn(long n) { if (!n) { swapcontext(&other, &first); return 1; } long r = turn(n - 1); __asm__ volatile("lea 1(%0), %0\n nop" : "+r"(r)); return r; }
ALONE static long back(long n) { if (n < 2) return n; long r = back(n - 1); __asm__ volatile("lea 1(%0), %0\n nop" : "+r"(r)); return r; }
static void *thread(void *n) { sink = leave((long)n); return 0; }
static void coroutine(void) { sink += turn(9); swapcontext(&other, &first); }
int main(void) {
  for (volatile int i = 0; i < 200; i++) { if (!setjmp(top)) sink += jump(i & 15); sink += back(i & 31); }
  pthread_t id; void *told;
  for (long i = 0; i < 3; i++) { pthread_create(&id, 0, thread, (void *)(i * 5)); pthread_join(id, &told); sink += (long)told; }
  for (int i = 0; i < 4; i++) {
    getcontext(&other); other.uc_stack.ss_sp = stack; other.uc_stack.ss_size = sizeof stack; other.uc_link = 0;
    makecontext(&other, coroutine, 0);
    // Every second one is given up in the midst of its calls.
    for (int turns = 0; turns <= (i & 1); turns++) swapcontext(&first, &other);
  }
  printf("%ld\n", sink); fflush(stdout);
  pid_t pid = fork();
  if (!pid) return (int)over(12);
  int status; waitpid(pid, &status, 0); printf("%d\n", WEXITSTATUS(status)); fflush(stdout);
  return (int)over(30);
}
