// build: -O2 | -O2 -static
// run: abort
// run: abort-handled
// run: raise-in-handler
// run: fault-in-handler
// run: fault-blocked
// run: double
// run: fpe
// run: bus
// run: ill
// run: ignored-fault
// run: kill
// run: rtmin
// run: xcpu
// run: barrier
// Ways to end by a signal, and faults that programs live on: what is seen before, how it ends.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>
static volatile int n; static sigjmp_buf out; static char *heap_; static volatile long faults;
static void say(int s, siginfo_t *i, void *c) { (void)c; printf("signal %d code %d\n", s, i->si_code); n++; }
static void again(int s, siginfo_t *i, void *c) { say(s, i, c); if (n < 3) raise(s); else { signal(s, SIG_DFL); raise(s); } }
static void fault(int s, siginfo_t *i, void *c) { say(s, i, c); *(volatile int *)16 = 1; }
static void jump(int s, siginfo_t *i, void *c) { (void)c; siglongjmp(out, i->si_code > 0 ? s : -s); }
static void barrier(int s, siginfo_t *i, void *c) { (void)s; (void)c; faults++; mprotect((void *)((unsigned long)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE); }
static void null(int s, siginfo_t *i, void *c) { (void)s; ucontext_t *u = c; if ((unsigned long)i->si_addr < 4096) { faults++; u->uc_mcontext.gregs[REG_RIP] += 3; u->uc_mcontext.gregs[REG_RAX] = -1; } else _exit(9); }
static void on(int s, void (*f)(int, siginfo_t *, void *), int flags) { struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = f; sa.sa_flags = SA_SIGINFO | flags; sigaction(s, &sa, NULL); }
static void block(int s) { sigset_t m; sigemptyset(&m); sigaddset(&m, s); sigprocmask(SIG_BLOCK, &m, NULL); }
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0); const char *w = argc > 1 ? argv[1] : ""; volatile int zero = 0; struct rlimit none = {0, 0}; setrlimit(RLIMIT_CORE, &none);
#define IS(x) if (!strcmp(w, x))
  IS("abort") abort();
  IS("abort-handled") { on(SIGABRT, say, 0); abort(); }
  IS("raise-in-handler") { on(SIGTERM, again, SA_NODEFER); raise(SIGTERM); }
  IS("fault-in-handler") { on(SIGUSR1, fault, 0); on(SIGSEGV, say, SA_RESETHAND); raise(SIGUSR1); }
  IS("fault-blocked") { on(SIGSEGV, say, 0); block(SIGSEGV); *(volatile int *)16 = 1; }
  IS("double") { on(SIGSEGV, fault, 0); *(volatile int *)16 = 1; }
  IS("fpe") { on(SIGFPE, jump, 0); for (int k = 0; k < 3; k++) { int r = sigsetjmp(out, 1); if (!r) n = 1 / zero; printf("%d\n", r); } int r = sigsetjmp(out, 1); if (!r) raise(SIGFPE); printf("%d\n", r); signal(SIGFPE, SIG_DFL); n = 1 / zero; }
  IS("bus") { FILE *f = tmpfile(); char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0); on(SIGBUS, jump, 0); int r = sigsetjmp(out, 1); if (!r) p[4096] = 1; printf("%d\n", r); if (ftruncate(fileno(f), 8192)) return 2; p[4096] = 5; printf("%d\n", p[4096]); if (ftruncate(fileno(f), 0)) return 2; signal(SIGBUS, SIG_DFL); n = p[0]; }
  IS("ill") { on(SIGILL, jump, 0); int r = sigsetjmp(out, 1); if (!r) __asm__ volatile("ud2"); printf("%d\n", r); signal(SIGILL, SIG_DFL); __asm__ volatile("ud2"); }
  IS("ignored-fault") { signal(SIGSEGV, SIG_IGN); raise(SIGSEGV); printf("lives\n"); *(volatile int *)16 = 1; }
  IS("kill") { block(SIGTERM); kill(getpid(), SIGTERM); printf("blocked\n"); kill(getpid(), SIGKILL); }
  IS("rtmin") raise(SIGRTMIN + 5);
  IS("xcpu") { on(SIGXCPU, say, SA_RESETHAND); raise(SIGXCPU); raise(SIGXCPU); }
  IS("barrier") {
    heap_ = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); on(SIGSEGV, barrier, 0); long sum = 0;
    for (int r = 0; r < 40; r++) { mprotect(heap_, 64 * 4096, PROT_READ); for (int k = 0; k < 64 * 4096; k += 512) heap_[k] += k + r; } for (int k = 0; k < 64 * 4096; k += 512) sum += heap_[k]; printf("barrier %ld %ld\n", faults, sum);
    on(SIGSEGV, null, 0); faults = 0; sum = 0; for (long k = 0; k < 2000; k++) { long r; __asm__ volatile("mov (%1), %0\n" : "=a"(r) : "c"(k % 3 ? (long *)heap_ : NULL)); sum += r; } printf("null %ld %ld\n", faults, sum); }
  printf("end\n");
}
