// Masks that cannot be read, and places where the one of before cannot be put; one word for both; on pages with code; while SIGSEGV
// is blocked, before there is code that a thread could change and afterwards.
// build: -O2 | -O2 -static
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define SEGV (1ul << (SIGSEGV - 1))
#define ALL (~(1ul << (SIGKILL - 1) | 1ul << (SIGSTOP - 1)))
#define USR1 (1ul << (SIGUSR1 - 1))

static unsigned char *code;
static unsigned long *missing, *fixed;
static int call(int how, void *set, void *old, unsigned long size) { errno = 0; return syscall(SYS_rt_sigprocmask, how, set, old, size) ? errno : 0; }
static unsigned long now(void) { unsigned long m = 0; call(SIG_BLOCK, 0, &m, 8); return m; }
static int run(int n) { code[1] = n; return ((int (*)(void))code)(); }

static void all(const char *what, unsigned long before, int runs) {
  unsigned long set = USR1, old = 5;
  void *bad[] = {(void *)8, missing, (void *)0x8000000000000000, (void *)-1};
  for (int i = 0; i < 4; i++) {
    call(SIG_SETMASK, &before, 0, 8);
    int a = call(SIG_BLOCK, bad[i], &old, 8), b = call(SIG_BLOCK, bad[i], bad[i], 8);
    unsigned long kept = now();
    // The mask changes, although the one of before cannot be told.
    int c = call(SIG_BLOCK, &set, bad[i], 8), d = call(77, 0, bad[i], 8), e = call(77, bad[i], 0, 8);
    printf("%s %d: %d %d old %lx mask %lx, %d %d %d mask %lx\n", what, i, a, b, old, kept, c, d, e, now());
  }
  call(SIG_SETMASK, &before, 0, 8);
  int a = call(SIG_BLOCK, &set, fixed, 8), b = call(SIG_BLOCK, fixed, 0, 8), c = call(77, &set, &old, 8), d = call(SIG_BLOCK, &set, &old, 4);
  printf("%s read-only: %d mask %lx, %d %d %d\n", what, a, now(), b, c, d);
  unsigned long both = USR1 | SEGV; a = call(SIG_SETMASK, &both, &both, 8); printf("%s one word: %d %lx mask %lx\n", what, a, both, now());
  both = 0; a = call(SIG_SETMASK, &both, &both, 8); printf("%s one word: %d %lx mask %lx\n", what, a, both, now());
  if (!runs) return;
  unsigned long *beside = (void *)(code + 512); call(SIG_SETMASK, &before, 0, 8);
  for (int i = 0; i < 40; i++) {
    int r = run(i); *beside = before | USR1; a = call(SIG_SETMASK, beside, beside, 8);
    if (a || r != i || i > 37) printf("%s on the code's page: %d %d %lx mask %lx\n", what, a, r, *beside, now());
    call(SIG_SETMASK, &before, beside + 1, 8);
    if (beside[1] != (before | USR1)) printf("before it was %lx\n", beside[1]);
  }
  call(SIG_UNBLOCK, &before, 0, 8);
}

int main(void) {
  missing = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fixed = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  all("without code", 0, 0); all("without code, blocked", SEGV, 0); all("without code, all blocked", ALL, 0);
  code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, "\xb8\0\0\0\0\xc3", 6);
  all("with code", 0, 1); all("with code, blocked", SEGV, 1); all("with code, all blocked", ALL, 1);
}
