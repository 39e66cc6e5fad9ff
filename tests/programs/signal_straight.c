// Handlers of signals without a branch or a call: nothing that they execute is an event. Sent and raised, one in the midst of another,
// as a function that is called too, in threads and children.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long first, second;

static void on_first(int number) { first += number; }
static void on_second(int number, siginfo_t *info, void *at) { second += number; }
static void handle(int number, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(number, &action, 0);
}

static void *thread(void *times) {
  for (long i = 0; i < (long)times; i++) pthread_kill(pthread_self(), i % 2 ? SIGUSR1 : SIGUSR2);
  return 0;
}

int main(void) {
  handle(SIGUSR2, on_second);
  on_first(1);
  signal(SIGUSR1, on_first);
  for (int i = 0; i < 30; i++) kill(getpid(), i % 3 ? SIGUSR1 : SIGUSR2);
  // Both wait, and come one upon the other.
  sigset_t both, before;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGUSR2);
  for (int i = 0; i < 4; i++) {
    sigprocmask(SIG_BLOCK, &both, &before);
    raise(SIGUSR1);
    raise(SIGUSR2);
    sigprocmask(SIG_SETMASK, &before, 0);
  }
  pthread_t other;
  pthread_create(&other, 0, thread, (void *)20L);
  pthread_join(other, 0);
  int status;
  pid_t child = fork();
  if (!child) {
    for (int i = 0; i < 7; i++) raise(SIGUSR1);
    _exit((int)(first % 100));
  }
  waitpid(child, &status, 0);
  printf("%ld %ld %d\n", first, second, WEXITSTATUS(status));
  return 0;
}
