// build: -O2 | -O2 -static
// Handlers that return to a frame which the kernel refuses: SIGSEGV, though no instruction faults, and though it is blocked.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
enum { NO_VECTORS, NO_ADDRESS, RESERVED_BITS, CODE_SEGMENT, NO_FRAME, WAYS };
static volatile int way;
static sigjmp_buf faulted;
static void on(int s, siginfo_t *i, void *v) {
  ucontext_t *c = v;
  switch (way) {
    case NO_VECTORS: c->uc_mcontext.fpregs = 0; break;   // allowed: the state is fresh
    case NO_ADDRESS: c->uc_mcontext.fpregs = (void *)8; break;
    case RESERVED_BITS: c->uc_mcontext.fpregs->mxcsr = 0xffffffff; break;
    case CODE_SEGMENT: c->uc_mcontext.gregs[REG_CSGSFS] = 7 | (c->uc_mcontext.gregs[REG_CSGSFS] & ~0xffffL); break;
    case NO_FRAME: __asm__ volatile("mov $8, %%rsp; mov $15, %%eax; syscall" : : : "memory");
  }
}
static void fault(int s, siginfo_t *i, void *c) { siglongjmp(faulted, 1000 + i->si_code); }
static void child(int handled) {
  struct rlimit none = {0, 0}; setrlimit(RLIMIT_CORE, &none);
  struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  if (handled == 1) sigaction(SIGSEGV, &a, 0);
  if (handled == 2) signal(SIGSEGV, SIG_IGN);
  if (handled == 3) { sigset_t segv; sigemptyset(&segv); sigaddset(&segv, SIGSEGV); sigprocmask(SIG_BLOCK, &segv, 0); }
  int code = sigsetjmp(faulted, 1);
  if (!code) raise(SIGUSR1);
  printf("goes on with %d\n", code); fflush(stdout); _exit(3);
}
int main(void) {
  struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO}; sigaction(SIGUSR1, &a, 0);
  for (way = 0; way < WAYS; way++)
    for (int handled = 0; handled < 4; handled++) {
      fflush(stdout); int status, p = fork();
      if (!p) child(handled);
      waitpid(p, &status, 0); printf("%d %d: %x\n", way, handled, status);
    }
}
