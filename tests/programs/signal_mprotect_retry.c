// build: -O2 | -O0
// A garbage collector's write barrier: faults on protected pages are repaired by mprotect and the store is retried; also siglongjmp.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static char *heap; static volatile int faults; static volatile long off; static sigjmp_buf jb; static volatile int jump;
static void h(int s, siginfo_t *i, void *c) { (void)s; (void)c; faults++; if (jump) siglongjmp(jb, i->si_code); off = (char *)i->si_addr - heap; mprotect((void *)((unsigned long)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE); }
int main(void) {
  struct sigaction sa = {.sa_sigaction = h, .sa_flags = SA_SIGINFO}; sigaction(SIGSEGV, &sa, NULL);
  heap = mmap(0, 64 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); long s = 0;
  for (int r = 0; r < 5; r++) { for (int i = 0; i < 64 * 4096; i += 1000) { heap[i]++; s += off + heap[i]; } printf("%d %ld\n", faults, s); mprotect(heap, 64 * 4096, PROT_READ); }
  jump = 1; for (volatile int k = 0; k < 50; k++) { int c = sigsetjmp(jb, 1); if (!c) { *(volatile int *)(k * 16L) = 1; puts("no"); } else s += c; }
  printf("%d %ld\n", faults, s);
}
