// build: -O2 | -O2 -static
// run: breakpoints
// run: popf
// run: sigreturn
// run: plain-popf
// run: die
// Traps that the program makes itself: breakpoints, the trap flag set by popf and by a handler, each instruction then a signal.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
static volatile int count, stop_at; static unsigned long first, last; static volatile int codes[8], wrong; static long rips[64];
static void trap(int s, siginfo_t *i, void *c) {
  ucontext_t *u = c; greg_t *g = u->uc_mcontext.gregs; (void)s;
  // Some virtual machines lose the processor's word for a step now and then: it looks like a breakpoint then.
  codes[i->si_code == TRAP_BRKPT && g[REG_EFL] & 0x100 ? TRAP_TRACE : i->si_code & 7]++;
  if (i->si_code == TRAP_TRACE) { if (!(g[REG_EFL] & 0x100)) wrong++; if ((unsigned long)i->si_addr != (unsigned long)g[REG_RIP]) wrong += 100; }
  // Some virtual machines tell of int1 in front of it, and would do so again and again.
  if (*(unsigned char *)g[REG_RIP] == 0xf1) g[REG_RIP]++;
  if (count < 64) rips[count] = g[REG_RIP]; if (!count) first = g[REG_RIP]; last = g[REG_RIP];
  if (++count == stop_at) g[REG_EFL] &= ~0x100L; }
static void arm(int s, siginfo_t *i, void *c) { (void)s; (void)i; ((ucontext_t *)c)->uc_mcontext.gregs[REG_EFL] |= 0x100; }
// Entered anywhere, so that the breakpoint is some instruction of its block of code, also the last.
__asm__(".text\nsled: .rept 64\n nop\n .endr\n int3\nslide: ret\n");
extern char sled[], slide[], b1[], b2[], b3[], s0[], s1[], s2[], s3[];
static void show(const char *w) { printf("%s: %d traps, codes %d %d %d %d %d wrong %d\n", w, count, codes[0], codes[1], codes[2], codes[3], codes[4], wrong); count = 0; memset((void *)codes, 0, sizeof codes); }
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0); const char *what = argc > 1 ? argv[1] : "popf"; struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = trap; sa.sa_flags = SA_SIGINFO; sigaction(SIGTRAP, &sa, NULL); sa.sa_sigaction = arm; sigaction(SIGUSR1, &sa, NULL);
  if (!strcmp(what, "breakpoints")) {
    __asm__ volatile("int3\nb1: nop\n" ::: "memory"); printf("behind %d\n", rips[0] == (long)b1); show("int3");
    __asm__ volatile(".byte 0xf1\nb3: nop\n" ::: "memory"); printf("behind %d\n", rips[0] == (long)b3); show("int1");
    for (int k = 0; k < 1000; k++) __asm__ volatile("int3" ::: "memory"); show("many");
    int behind = 0; for (int k = 0; k < 64; k++) { count = 0; ((void (*)(void))(sled + k))(); behind += rips[0] == (long)slide; } printf("behind %d\n", behind); show("sled"); }
  if (!strcmp(what, "popf")) {
    long a = 0; stop_at = 7;
    __asm__ volatile("pushfq\n orl $0x100,(%%rsp)\n popfq\n s0: add $1,%0\n s1: add $2,%0\n lea 4(%0),%0\n s2: add $8,%0\n add $16,%0\n jmp 1f\n nop\n 1: add $32,%0\n s3: nop\n nop\n" : "+r"(a)::"cc", "memory");
    printf("%ld first %d second %d last %d\n", a, rips[0] == (long)s1, rips[2] == (long)s2, rips[6] == (long)s3); show("popf"); }
  if (!strcmp(what, "sigreturn")) { stop_at = 50; raise(SIGUSR1); int x = 0; for (int k = 0; k < 100; k++) x += k * count; show("handler"); printf("%d\n", x > 0); }
  if (!strcmp(what, "plain-popf")) {
    unsigned long sum = 0; for (int k = 0; k < 200000; k++) { unsigned long f = k & 0x8d5; __asm__ volatile("add $1,%0\n push %1\n popfq\n adc $0,%0\n pushfq\n pop %1\n" : "+r"(sum), "+r"(f)::"cc", "memory"); sum += f & 0x8d5; } printf("%lx\n", sum); show("none"); }
  if (!strcmp(what, "die")) { signal(SIGTRAP, SIG_DFL); long a = 0; __asm__ volatile("pushfq\n orl $0x100,(%%rsp)\n popfq\n add $1,%0\n add $1,%0\n" : "+r"(a)::"cc", "memory"); printf("alive\n"); }
}
