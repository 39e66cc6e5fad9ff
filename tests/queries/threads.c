// Stores of references by threads, a signal handler and a child process, each a sequence of its own: references
// are numbers, the sequence's above 32 bits, and every fifth is null. Says how many each has stored.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, HANDLER = THREADS + 1, CHILD };
static void *table[CHILD + 1][64];
static volatile uint32_t handled;

__attribute__((noinline)) void store_reference(void **to, void *what) { *(void *volatile *)to = what; }

static void store(uintptr_t sequence, uint32_t n) {
  store_reference(&table[sequence][n % 64], n % 5 == 0 ? 0 : (void *)(sequence << 32 | n));
}

static void on_alarm(int signal) {
  (void)signal;
  store(HANDLER, ++handled);
}

static long stores;

static void *work(void *argument) {
  for (uint32_t n = 1; n <= stores; n++) store((uintptr_t)argument, n);
  return 0;
}

int main(int argc, char **argv) {
  stores = argc > 1 ? atol(argv[1]) : 20000;
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, 0);
  pthread_t threads[THREADS];
  for (uintptr_t k = 1; k < THREADS; k++) pthread_create(&threads[k], 0, work, (void *)(k + 1));
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &action, 0);
  pthread_sigmask(SIG_UNBLOCK, &alarm, 0);
  struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, 0);
  work((void *)1);
  for (int k = 1; k < THREADS; k++) pthread_join(threads[k], 0);
  setitimer(ITIMER_REAL, &never, 0);
  pthread_sigmask(SIG_BLOCK, &alarm, 0);
  pid_t child = fork();
  if (child == 0) {
    work((void *)CHILD);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  for (int k = 1; k <= THREADS; k++) printf("%d %ld\n", k, stores);
  printf("%d %u\n%d %ld\n", HANDLER, handled, CHILD, stores);
  return 0;
}
