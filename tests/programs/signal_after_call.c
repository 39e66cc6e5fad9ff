// build: -O2 -pthread | -O2 -static -pthread | -O2 -no-pie -pthread
// A signal that a thread sends itself comes just after the call that sends it. Its handler finds the registers as the call leaves them.
// It costs as much as another signal: not many single steps more, each of which takes longer than a signal in a virtual machine.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
enum { TIMES = 600, OTHERS_FOR_ONE = 4 };
static volatile long handled, wrong;
static long after, pid, tid;
static void on(int s, siginfo_t *i, void *c) {
  greg_t *r = ((ucontext_t *)c)->uc_mcontext.gregs;
  handled++;
  if (s != SIGTRAP) wrong += r[REG_RIP] != after || r[REG_RCX] != r[REG_RIP] || (r[REG_R11] ^ r[REG_EFL]) & 0xcd5 || r[REG_RAX] != 0 || r[REG_RBX] != 77;
}
static void set(int s, int flags) { struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO | flags}; sigaction(s, &a, 0); }
static void send(int s) {
  long rax = SYS_tgkill, at;
  __asm__ volatile("lea 1f(%%rip), %1; mov %1, %2; mov $77, %%ebx; stc; syscall; 1:" : "+a"(rax), "=&r"(at), "=m"(after) : "D"(pid), "S"(tid), "d"((long)s) : "rcx", "r11", "rbx", "memory");
}
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void) {
  pid = getpid(); tid = syscall(SYS_gettid);
  static char stack[65536]; stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&own, 0); set(SIGUSR1, 0); set(SIGUSR2, SA_ONSTACK | SA_NODEFER); set(SIGTRAP, 0); set(SIGRTMIN, 0);
  static const int sent[] = {SIGUSR1, SIGUSR2};
  double best[2] = {1e9, 1e9};
  for (int round = 0; round < 3; round++) {
    double start = cpu(); for (int n = 0; n < TIMES; n++) send(sent[n & 1]);
    double middle = cpu(); for (int n = 0; n < TIMES; n++) __asm__ volatile("int3");
    double end = cpu();
    if (middle - start < best[0]) best[0] = middle - start;
    if (end - middle < best[1]) best[1] = end - middle;
  }
  // A batch that was blocked: all come after one call.
  sigset_t set, old; sigemptyset(&set); sigaddset(&set, SIGRTMIN); sigprocmask(SIG_BLOCK, &set, &old);
  for (int n = 0; n < 50; n++) sigqueue(getpid(), SIGRTMIN, (union sigval){n});
  long before = wrong; sigprocmask(SIG_SETMASK, &old, 0); wrong = before;
  printf("%ld handled, %ld wrong\n", handled, wrong);
  // Options that make rare things common cost more at one place than at another.
  if (!getenv("TROMMEL_STRESS") && best[0] > OTHERS_FOR_ONE * best[1]) printf("sent signals take %.1f times as long as traps\n", best[0] / best[1]);
  else puts("sent signals take as long as traps");
}
