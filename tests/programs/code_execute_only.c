// build: -O2 -pthread | -O2 -static -pthread
// Code in memory that was not asked to be readable: executable alone, writable and executable, of a file, across two pages; run often, changed in between, by a second thread, and taken away.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const unsigned char sum[] = {0xb8, 1, 0, 0, 0, 0x89, 0xf9, 0x01, 0xc8, 0xff, 0xc9, 0x75, 0xfa, 0xc3};  // mov eax,1; mov ecx,edi; 1: add eax,ecx; dec ecx; jnz 1b; ret
static unsigned char *p; static sigjmp_buf back;
static int call(unsigned char *at, int n) { return ((int (*)(int))at)(n); }
static void *thread(void *at) { long s = 0; for (int i = 0; i < 200; i++) s += call(at, 50); return (void *)s; }
static void on_fault(int s, siginfo_t *i, void *c) { (void)c; siglongjmp(back, s * 1000 + i->si_code); }
static void put(unsigned char *at, int first) { memcpy(at, sum, sizeof sum); at[1] = first; }
static void run(const char *what, unsigned char *at) {
  void *s; pthread_t t; pthread_create(&t, 0, thread, at); int own = call(at, 20000); pthread_join(t, &s);
  printf("%s: %d %ld\n", what, own, (long)s);
}
int main(void) {
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_sigaction = on_fault; sa.sa_flags = SA_SIGINFO; sigaction(SIGSEGV, &sa, 0); sigaction(SIGBUS, &sa, 0);
  p = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < 5; round++) {
    mprotect(p, 3 * 4096, PROT_READ | PROT_WRITE); put(p, round); put(p + 4096 - 7, round + 10);
    mprotect(p, 3 * 4096, PROT_EXEC); run("executable", p); run("across", p + 4096 - 7);
    mprotect(p, 3 * 4096, PROT_WRITE | PROT_EXEC); p[1] = round + 20; run("writable", p);
    for (int i = 0; i < 30; i++) { p[1] = i; if (call(p, 3) != 6 + i) puts("old code"); }
    mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE); put(p + 4096, 1); mprotect(p + 4096, 4096, PROT_EXEC);
    madvise(p + 8192, 4096, MADV_DONTNEED);
  }
  int fd = memfd_create("code", 0); ftruncate(fd, 2 * 4096); unsigned char text[sizeof sum]; put(text, 3); pwrite(fd, text, sizeof text, 4096);
  unsigned char *f = mmap(0, 2 * 4096, PROT_EXEC, MAP_PRIVATE, fd, 0); run("of a file", f + 4096);
  text[1] = 9; pwrite(fd, text, sizeof text, 4096); run("written", f + 4096);
  mprotect(p, 4096, PROT_NONE); int r = sigsetjmp(back, 1); if (!r) call(p, 1); printf("gone: %d\n", r);
  ftruncate(fd, 4096); r = sigsetjmp(back, 1); if (!r) call(f + 4096, 1); printf("cut short: %d\n", r);
  munmap(p, 3 * 4096); r = sigsetjmp(back, 1); if (!r) call(p, 1); printf("unmapped: %d\n", r);
}
