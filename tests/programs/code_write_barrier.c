// build: -O2 | -O2 -static
// A handler of SIGSEGV as the write barrier of a page with code: protected by the program itself, between protections of all kinds; faults that are the program's own arrive with their address.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
static unsigned char *p;
static volatile int hits, where, writes;
static void on_segv(int sig, siginfo_t *i, void *c) {
  (void)sig;
  hits++; where = (unsigned char *)i->si_addr - p; writes += (((ucontext_t *)c)->uc_mcontext.gregs[REG_ERR] >> 1) & 1;
  mprotect((void *)((uintptr_t)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
}
static int call(int n) { return ((int (*)(int))p)(n); }
static void put(int k) { unsigned char c[7] = {0x8d, 0x87, k, k >> 8, 0, 0, 0xc3}; for (int i = 0; i < 7; i++) ((volatile unsigned char *)p)[i] = c[i]; }
int main(void) {
  struct sigaction sa; long s = 0;
  memset(&sa, 0, sizeof sa); sa.sa_sigaction = on_segv; sa.sa_flags = SA_SIGINFO; sigaction(SIGSEGV, &sa, 0);
  p = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  put(5); s = call(1);
  for (int i = 0; i < 100; i++) {
    if (i % 3 == 0) mprotect(p, 4096, PROT_READ | PROT_EXEC);
    put(i); s = s * 31 + call(i);            // its own protection: a fault for the handler; ours: none
    p[4095] = i; s += call(i);
    s &= 0xffffffffffff;
  }
  printf("%ld: %d hits, %d writes, last at %d\n", s, hits, writes, where);
  for (int i = 0; i < 20; i++) {             // not executable: the call itself faults
    mprotect(p, 4096, PROT_READ | PROT_WRITE); put(i * 2); s = s * 31 + call(i);
    mprotect(p, 4096, PROT_NONE); s = s * 31 + call(i + 1);
  }
  printf("%ld: %d hits, %d writes, last at %d\n", s & 0xffffffffffff, hits, writes, where);
}
