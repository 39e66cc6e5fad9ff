// build: -O2 | -O2 -static
// run: plain
// run: altstack
// run: disarm
// run: overflow
// run: overflow-handled
// run: overflow-main
// run: nested
// run: context
// Where handlers run and what they may change: alternate stacks of all kinds, frames that do not fit, nesting, the whole context.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
static char *area; enum { SIZE = 65536 }; static volatile int deep, most; static sigjmp_buf out;
static int on(const void *p) { return (char *)p >= area && (char *)p < area + SIZE; }
static void set(int flags) { stack_t s = {.ss_sp = area, .ss_size = SIZE, .ss_flags = flags}; int r = sigaltstack(&s, NULL); printf("set %x: %d\n", flags, r); }
static void ask(const char *w) { stack_t s; sigaltstack(NULL, &s); printf("%s: sp %d size %zu flags %x\n", w, s.ss_sp == area, s.ss_size, s.ss_flags); }
static void show(int s, siginfo_t *i, void *c) { ucontext_t *u = c; (void)i; char here; printf("signal %d on %d aligned %d uc %d %zu %x frame %d\n", s, on(&here), (int)((uintptr_t)__builtin_frame_address(0) & 15), u->uc_stack.ss_sp == area, u->uc_stack.ss_size, u->uc_stack.ss_size ? u->uc_stack.ss_flags : 0, on(u)); ask("inside"); stack_t st = {.ss_flags = SS_DISABLE}; printf("disable inside %d\n", sigaltstack(&st, NULL)); if (deep++ < 1) raise(SIGUSR2); deep--; }
static void handle(int s, void (*f)(int, siginfo_t *, void *), int flags) { struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = f; sa.sa_flags = SA_SIGINFO | flags; sigaction(s, &sa, NULL); }
static void recurse(int s, siginfo_t *i, void *c) { (void)i; (void)c; char fill[3000]; memset(fill, s, sizeof fill); deep++; __asm__ volatile("" ::"r"(fill) : "memory"); raise(s); }
static void end(int s, siginfo_t *i, void *c) { (void)c; printf("ended by %d code %d, deep %d\n", s, i->si_code == SI_KERNEL || i->si_code == SEGV_MAPERR || i->si_code == SEGV_ACCERR, deep > 3); fflush(stdout); _exit(4); }
static void nest(int s, siginfo_t *i, void *c) { (void)i; (void)c; if (++deep > most) most = deep; if (s < SIGRTMIN + 8) raise(s + 1); raise(SIGUSR1); deep--; }
static void leave(int s, siginfo_t *i, void *c) { (void)i; (void)c; siglongjmp(out, s); }
static __attribute__((noinline)) int skipped(void) { printf("never\n"); return 1; }
static long landed; static void target(void) { register long rbx asm("rbx"); register long r15 asm("r15"); __asm__ volatile("" : "=r"(rbx), "=r"(r15)); landed = rbx * 1000 + r15; siglongjmp(out, 7); }
static void change(int s, siginfo_t *i, void *c) {
  ucontext_t *u = c; greg_t *g = u->uc_mcontext.gregs; (void)i;
  if (s == SIGUSR1) { g[REG_RBX] = 5; g[REG_R15] = 77; g[REG_RIP] = (long)target; g[REG_RSP] = (g[REG_RSP] & ~15) - 8 - 128; }
  if (s == SIGUSR2) { sigaddset(&u->uc_sigmask, SIGHUP); g[REG_EFL] |= 0x8d5; }
  if (s == SIGILL) { g[REG_RIP] += 2; g[REG_RAX] += 1; g[REG_R11] = 11; for (int n = 0; n < 16; n++) u->uc_mcontext.fpregs->_xmm[n].element[0] = n + 100; u->uc_mcontext.fpregs->mxcsr |= 0x8000; } }
static unsigned long blocked(void) { sigset_t m; sigprocmask(SIG_BLOCK, NULL, &m); return *(unsigned long *)&m; }
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0); const char *what = argc > 1 ? argv[1] : "plain";
  char *map = mmap(NULL, SIZE + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); area = map + 4096; mprotect(area, SIZE, PROT_READ | PROT_WRITE);
  if (!strcmp(what, "plain")) { handle(SIGUSR1, show, 0); handle(SIGUSR2, show, 0); raise(SIGUSR1); ask("after"); handle(SIGUSR1, show, SA_ONSTACK); raise(SIGUSR1); stack_t s = {.ss_sp = area, .ss_size = 100}; printf("small %d\n", sigaltstack(&s, NULL)); s.ss_size = SIZE; s.ss_flags = 64; printf("flags %d\n", sigaltstack(&s, NULL)); printf("wild %d %d\n", sigaltstack((void *)8, NULL), sigaltstack(NULL, (void *)8)); ask("still"); }
  if (!strcmp(what, "altstack")) { for (int f = 0; f < 3; f++) { set(f == 1 ? SS_ONSTACK : f == 2 ? SS_DISABLE : 0); ask("before"); handle(SIGUSR1, show, SA_ONSTACK); handle(SIGUSR2, show, f == 1 ? 0 : SA_ONSTACK); raise(SIGUSR1); ask("after"); } }
  if (!strcmp(what, "disarm")) { set((int)(1u << 31)); ask("before"); handle(SIGUSR1, show, SA_ONSTACK); handle(SIGUSR2, show, SA_ONSTACK); raise(SIGUSR1); ask("after"); set((int)(1u << 31) | SS_ONSTACK); raise(SIGUSR1); ask("after"); }
  if (!strcmp(what, "overflow") || !strcmp(what, "overflow-handled")) {
    set(0); handle(SIGUSR1, recurse, SA_ONSTACK | SA_NODEFER); if (what[8]) { handle(SIGSEGV, end, 0); }
    raise(SIGUSR1); }
  if (!strcmp(what, "overflow-main")) { set(0); handle(SIGSEGV, end, SA_ONSTACK); handle(SIGUSR1, recurse, SA_NODEFER); raise(SIGUSR1); }
  if (!strcmp(what, "nested")) {
    for (int s = SIGRTMIN; s <= SIGRTMIN + 8; s++) handle(s, nest, s & 1 ? SA_ONSTACK : 0); handle(SIGUSR1, nest, SA_NODEFER); struct sigaction sa; memset(&sa, 0, sizeof sa); handle(SIGUSR1, show, SA_RESETHAND); deep = 5; raise(SIGUSR1); sigaction(SIGUSR1, NULL, &sa); printf("reset %d\n", sa.sa_handler == SIG_DFL); signal(SIGUSR1, SIG_IGN); deep = 0; raise(SIGRTMIN); printf("most %d\n", most);
    handle(SIGUSR2, leave, 0); int r = sigsetjmp(out, 1); if (!r) raise(SIGUSR2); printf("jumped %d blocked %lx\n", r, blocked()); r = sigsetjmp(out, 0); if (!r) raise(SIGUSR2); printf("jumped %d blocked %lx\n", r, blocked());
    set(0); handle(SIGHUP, leave, SA_ONSTACK); r = sigsetjmp(out, 1); if (!r) raise(SIGHUP); ask("after a jump"); }
  if (!strcmp(what, "context")) {
    handle(SIGUSR1, change, 0); handle(SIGUSR2, change, 0); handle(SIGILL, change, 0);
    int r = sigsetjmp(out, 1); if (!r) { raise(SIGUSR1); skipped(); } printf("landed %d %ld\n", r, landed);
    raise(SIGUSR2); printf("blocked %lx\n", blocked());
    long rax = 41, r11; double x[16]; unsigned mx;
    __asm__ volatile("ud2\n movq %%xmm0,0(%3)\n movq %%xmm7,56(%3)\n movq %%xmm15,120(%3)\n stmxcsr %2\n" : "+a"(rax), "=r"(r11), "=m"(mx) : "r"(x) : "r11", "memory", "xmm0", "xmm1", "xmm7", "xmm15"); 
    __asm__ volatile("mov %%r11,%0" : "=r"(r11)); printf("%ld %ld %ld %ld %ld %x\n", rax, r11 != 0, ((long *)x)[0] & 0xffff, ((long *)x)[7] & 0xffff, ((long *)x)[15] & 0xffff, mx & 0xffc0);
  }
}
