// Code is made and changed by threads that block SIGSEGV: all the while, in handlers, around calls, as threads are started, in children.
// What is blocked is blocked: faults of its own end a process, and what is sent waits.
// build: -O2 -pthread | -O2 -static -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#define SEGV (1ul << (SIGSEGV - 1))

static unsigned char *code;
static unsigned long sum;
static void make(void) {
  code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, "\xb8\0\0\0\0\xc3", 6);
}
// Changes the code and executes it, and stores beside it.
static void patch(int n) {
  for (int i = 0; i < 3; i++) {
    code[1] = n + i, code[200 + i]++;
    sum = sum * 31 + ((int (*)(void))code)();
  }
}
static unsigned long mask_now(void) { unsigned long m = 0; syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, &m, 8); return m; }
static unsigned long change(int how, unsigned long set) { unsigned long old = 0; syscall(SYS_rt_sigprocmask, how, &set, &old, 8); return old; }
static void say(const char *what) { printf("%s: %lx blocked %lx\n", what, sum, mask_now()); fflush(stdout); }
static void say_end(const char *what, pid_t p) { int s; waitpid(p, &s, 0); printf("%s: %s %d\n", what, WIFSIGNALED(s) ? "signal" : "exit", WIFSIGNALED(s) ? WTERMSIG(s) : WEXITSTATUS(s)); fflush(stdout); }
static unsigned long shown(void) { char b[4096] = ""; int fd = open("/proc/thread-self/status", O_RDONLY); read(fd, b, 4095); close(fd); return strtoul(strstr(b, "\nSigBlk:\t") + 9, 0, 16); }

static volatile int came; static unsigned long saved, within, leave_with; static int leaves;
static void handler(int n, siginfo_t *i, void *c) {
  (void)i; ucontext_t *u = c; came = came * 10 + n % 10; saved = *(unsigned long *)&u->uc_sigmask; within = mask_now();
  patch(n);
  if (leaves) *(unsigned long *)&u->uc_sigmask = leave_with;
}
static void handle(int n, unsigned long mask, int flags) { struct sigaction a; memset(&a, 0, sizeof a); a.sa_sigaction = handler; a.sa_flags = SA_SIGINFO | flags; *(unsigned long *)&a.sa_mask = mask; sigaction(n, &a, 0); }
static void say_handled(const char *what) { printf("%s: came %d saved %lx within %lx\n", what, came, saved, within); came = 0; say(what); }

static pthread_barrier_t both;
// It blocks everything before there is any code.
static void *early(void *x) { change(SIG_SETMASK, -1ul); pthread_barrier_wait(&both); pthread_barrier_wait(&both); patch(40); patch(43); pthread_barrier_wait(&both); return x; }
static void *late(void *x) { patch(50); return (void *)mask_now() == x ? x : 0; }
static void *waits(void *x) { sigset_t s; sigemptyset(&s); sigaddset(&s, SIGSEGV); int n = 0; pthread_barrier_wait(&both); sigwait(&s, &n); printf("waited for %d\n", n); return x; }

static sigjmp_buf back;
static void jump(int n) { (void)n; patch(70); siglongjmp(back, 1); }
static ucontext_t here, there;
static void other(void) { patch(80); swapcontext(&there, &here); patch(83); }

static void own_faults(void) {
  static const char *how[] = {"null", "null, handled", "in a handler", "of a frame", "sent and let go"};
  for (int n = 0; n < 5; n++) {
    pid_t p = fork();
    if (!p) {
      if (n) handle(SIGSEGV, 0, 0);
      change(SIG_SETMASK, -1ul); patch(n);
      switch (n) {
      case 2: { handle(SIGUSR1, -1ul, 0); struct sigaction a; sigaction(SIGUSR1, 0, &a); change(SIG_SETMASK, 0); raise(SIGUSR1); change(SIG_SETMASK, SEGV); break; }
      case 3: { stack_t s = {.ss_sp = malloc(16384), .ss_size = 16384}; mprotect((void *)(((unsigned long)s.ss_sp + 4095) & -4096), 8192, PROT_READ); sigaltstack(&s, 0); handle(SIGUSR1, 0, SA_ONSTACK); change(SIG_SETMASK, SEGV); raise(SIGUSR1); break; }
      case 4: signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); patch(9); change(SIG_UNBLOCK, SEGV); _exit(1);
      }
      *(volatile int *)8 = 1;
      _exit(0);
    }
    say_end(how[n], p);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) { printf("%s with %lx, shown %lx\n", argv[1], mask_now(), shown()); return 0; }
  pthread_barrier_init(&both, 0, 2);
  pthread_t t; pthread_create(&t, 0, early, 0); pthread_barrier_wait(&both);
  make(); patch(1); say("open");
  pthread_barrier_wait(&both); pthread_barrier_wait(&both); pthread_join(t, 0); say("a thread that had blocked it before");

  printf("old %lx\n", change(SIG_BLOCK, -1ul)); patch(4); say("all blocked"); printf("shown %lx\n", shown());
  printf("old %lx\n", change(SIG_UNBLOCK, SEGV)); patch(7); say("all but one");
  printf("old %lx\n", change(SIG_SETMASK, SEGV)); patch(10); say("only that"); change(SIG_BLOCK, 0); patch(13); printf("old %lx\n", change(SIG_SETMASK, 0));

  // Arguments that are refused, and where a call writes.
  unsigned long *word = (unsigned long *)(code + 1024), m = SEGV;
  printf("how %d", syscall(SYS_rt_sigprocmask, 7, &m, word, 8) ? errno : 0); printf(" size %d", syscall(SYS_rt_sigprocmask, SIG_BLOCK, &m, word, 4) ? errno : 0);
  printf(" set %d", syscall(SYS_rt_sigprocmask, SIG_BLOCK, 8, word, 8) ? errno : 0); printf(" old %d", syscall(SYS_rt_sigprocmask, SIG_BLOCK, &m, 8, 8) ? errno : 0);
  printf(" none %d", syscall(SYS_rt_sigprocmask, 7, 0, 0, 8) ? errno : 0); printf(" word %lx\n", *word); patch(15);
  *word = 1; syscall(SYS_rt_sigprocmask, SIG_BLOCK, word, word, 8); printf("word %lx\n", *word); patch(16); change(SIG_SETMASK, 0);

  handle(SIGUSR1, -1ul, 0); raise(SIGUSR1); say_handled("a handler that blocks all");
  handle(SIGSEGV, 0, SA_RESETHAND); raise(SIGSEGV); say_handled("its own handler");
  handle(SIGSEGV, 0, SA_NODEFER); raise(SIGSEGV); say_handled("nothing deferred");
  handle(SIGUSR1, 0, 0); change(SIG_SETMASK, SEGV | 2); raise(SIGUSR1); say_handled("blocked outside");
  leaves = 1, leave_with = 0; raise(SIGUSR1); patch(20); say_handled("released by a frame");
  leave_with = SEGV; raise(SIGUSR1); patch(23); say_handled("blocked by a frame"); leaves = 0;

  // Sent: it waits, is found, and comes.
  handle(SIGSEGV, 0, 0); raise(SIGSEGV); patch(26); sigset_t p; sigpending(&p); printf("pending %lx\n", *(unsigned long *)&p); say_handled("sent");
  sigset_t only; sigemptyset(&only); sigaddset(&only, SIGSEGV); struct timespec none = {0, 0}, some = {5, 0}; printf("taken %d", sigtimedwait(&only, 0, &none)); printf(" again %d\n", sigtimedwait(&only, 0, &none));
  patch(29); kill(getpid(), SIGSEGV); patch(32); sigset_t empty; sigemptyset(&empty); printf("waits %d", ppoll(0, 0, &some, &empty)); say_handled("in a call that waits");
  raise(SIGSEGV); change(SIG_SETMASK, 0); say_handled("released"); change(SIG_SETMASK, SEGV); patch(35);
  sigset_t full; sigfillset(&full); sigdelset(&full, SIGALRM); handle(SIGALRM, -1ul, 0); alarm(0); struct itimerspec soon = {.it_value.tv_nsec = 2000000}; timer_t timer; timer_create(CLOCK_MONOTONIC, 0, &timer);
  change(SIG_BLOCK, 1ul << (SIGALRM - 1)); timer_settime(timer, 0, &soon, 0); sigsuspend(&full); change(SIG_SETMASK, SEGV); say_handled("in a call that blocks more"); patch(38); timer_delete(timer);
  pthread_create(&t, 0, waits, 0); pthread_barrier_wait(&both); kill(getpid(), SIGSEGV); pthread_join(t, 0); say("for another thread");

  for (int i = 0; i < 20; i++) { void *r; pthread_create(&t, 0, late, (void *)SEGV); pthread_join(t, &r); if (r != (void *)SEGV) puts("another mask"); }
  change(SIG_SETMASK, 0); say("threads started");
  signal(SIGUSR2, jump); if (!sigsetjmp(back, 1)) raise(SIGUSR2); say("after a jump");
  getcontext(&there); there.uc_stack.ss_sp = malloc(65536); there.uc_stack.ss_size = 65536; there.uc_link = &here; sigfillset(&there.uc_sigmask); makecontext(&there, other, 0);
  swapcontext(&here, &there); say("in between"); swapcontext(&here, &there); say("contexts");

  own_faults();
  change(SIG_SETMASK, SEGV | 2); pid_t c = fork(); if (!c) { patch(90); say("child"); char *a[] = {argv[0], "executed", 0}; execv("/proc/self/exe", a); } say_end("forked", c);
  c = vfork(); if (!c) { patch(93); execl("/proc/self/exe", argv[0], "of vfork", (char *)0); _exit(9); } say_end("vforked", c);
  execl("/nowhere", "nowhere", (char *)0); patch(96); say("not executed");
  return 0;
}
