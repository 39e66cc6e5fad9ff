// build: -O2 -w -pthread
// Processes that run on in their maker's memory and have threads: one ends its group, is killed, or ends thread by thread; with dispositions of their own or shared ones; many after each other.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { STACK = 65536 };
static int flags, threads, way; static volatile int ready, handled, last;
static char *stack(void) { return (char *)mmap(0, STACK, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + STACK; }
static void doze(void) { struct timespec t = {0, 1000000}; syscall(SYS_nanosleep, &t, 0); }
static void on_usr1(int s) { (void)s; __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST); }
static int thread(void *a) {
  long n = (long)a; __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
  if (way == 2) { while (!last) doze(); syscall(SYS_exit, 4); }  // The status is that of the last one to end.
  if (way == 3 && n == 0) { while (ready < threads) doze(); syscall(SYS_exit_group, 5); }
  for (;;) doze();
}
static int child(void *a) {
  for (long i = 0; i < threads; i++) clone(thread, stack(), (flags & ~0xff) | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, (void *)i);
  while (ready < threads) doze();
  if (!(flags & CLONE_SIGHAND)) { struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_handler = on_usr1; sigaction(SIGUSR1, &sa, 0); syscall(SYS_kill, syscall(SYS_getpid), SIGUSR1); while (!handled) doze(); }
  if (way == 0) syscall(SYS_exit_group, 3);
  if (way == 1) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  if (way == 2) { last = 1; syscall(SYS_exit, 4); }
  for (;;) doze();
}
static void spawn(const char *what) {
  ready = handled = last = 0; int s = 0, p = clone(child, stack(), flags, 0); if (waitpid(p, &s, 0) != p) perror("waitpid"); printf("%s: %#x handled %d\n", what, s, way == 3 ? 0 : handled);
}
int main(void) {
  static const char *const ways[] = {"exit_group", "killed", "one by one", "exit_group of another"}; signal(SIGUSR1, SIG_IGN);
  for (threads = 0; threads < 5; threads += 2)
    for (way = 0; way < (threads ? 4 : 3); way++) { flags = SIGCHLD | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND; spawn(ways[way]); flags = SIGCHLD | CLONE_VM | CLONE_FILES; spawn(ways[way]); }
  for (int i = 0; i < 20; i++) { threads = 3; way = i & 1; ready = handled = 0; int s, p = clone(child, stack(), flags, 0); waitpid(p, &s, 0); if (s != (way ? SIGKILL : 0x300)) printf("%#x\n", s); }
  pid_t p = fork(); if (!p) _exit(9); int s; waitpid(p, &s, 0); printf("fork %#x\n", s);
}
