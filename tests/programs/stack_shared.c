// build: -O0 | -O2
// A stack that another process writes to: a loop waits for its own local variable to change, many times over. It looks at
// it several times a turn and writes to no memory, so that the variable would be worth a register.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define ROUNDS 40
static ucontext_t away, home;
static volatile int *volatile *where;
static long turns;
static void waits(void) {
  volatile int turn = 0;
  register long n = 0;
  *where = &turn;
  for (int i = 1; i <= ROUNDS; i++) {
    register int mine = 2 * i - 1;
    while (turn != mine && turn != mine && turn != mine && turn != mine) n++;
    turn = 2 * i;
  }
  turns = n;
}
int main(void) {
  alarm(10);
  char *stack = mmap(0, 1 << 17, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  where = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!fork()) {
    while (!*where) usleep(100);
    for (int i = 1; i <= ROUNDS; i++) {
      usleep(500);
      **where = 2 * i - 1;
      while (i < ROUNDS && **where != 2 * i) usleep(50);
    }
    _exit(0);
  }
  getcontext(&away);
  away.uc_stack.ss_sp = stack;
  away.uc_stack.ss_size = 1 << 17;
  away.uc_link = &home;
  makecontext(&away, waits, 0);
  swapcontext(&home, &away);
  wait(0);
  printf("%d\n", turns > ROUNDS);
  return 0;
}
