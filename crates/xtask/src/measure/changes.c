// What a change of code costs: nanoseconds of each kind, on standard output.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
enum { PAGES = 64, EACH = 32, RWX = PROT_READ | PROT_WRITE | PROT_EXEC };
static unsigned char *p;
static long sum;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static void put(unsigned char *at, int k) { memcpy(at, "\x8d\x87\0\0\0\0\xc3", 7); memcpy(at + 2, &k, 4); }
static void call(unsigned char *at) { sum += ((int (*)(int))at)(1); }
static void fill(void) { for (int i = 0; i < PAGES * EACH; i++) put(p + i * (4096 / EACH), i); }
static void fresh(int protection) { p = mmap(0, PAGES * 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
#define REPORT(name, rounds, body) do { double t = now(); for (int r = 0; r < (rounds); r++) { body; } printf("%s\t%.0f\n", name, (now() - t) / (rounds)); } while (0)
int main(void) {
  fresh(RWX); fill();
  for (int r = 0; r < 4; r++) for (int i = 0; i < PAGES * EACH; i++) call(p + i * (4096 / EACH));
  REPORT("a call of code that stays", 200000, call(p));
  // Each page is stored to a few times only, so that it stays protected.
  REPORT("a store beside code, and a call of that code", PAGES * 20, p[r % PAGES * 4096 + 100]++; call(p + r % PAGES * 4096));
  fresh(RWX);
  REPORT("the same in one page, over and over", 100000, if (!r) put(p, 1); p[100]++; call(p));
  fresh(RWX);
  REPORT("other code each time, in one place", 20000, put(p, r); call(p));
  fresh(PROT_READ | PROT_WRITE); fill();
  mprotect(p, PAGES * 4096, PROT_READ | PROT_EXEC);
  for (int i = 0; i < PAGES * EACH; i++) call(p + i * (4096 / EACH));
  REPORT("protection of 64 pages with 2048 functions there and back, then one call", 2000,
    mprotect(p, PAGES * 4096, PROT_READ | PROT_WRITE); mprotect(p, PAGES * 4096, PROT_READ | PROT_EXEC); call(p));
  REPORT("the same, then a call of each of 2048", 200,
    mprotect(p, PAGES * 4096, PROT_READ | PROT_WRITE); mprotect(p, PAGES * 4096, PROT_READ | PROT_EXEC); for (int i = 0; i < PAGES * EACH; i++) call(p + i * (4096 / EACH)));
  int fd = memfd_create("code", 0); if (ftruncate(fd, 4096)) return 1;
  unsigned char *w = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *x = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  put(w, 1);
  REPORT("a call of code mapped twice", 200000, call(x));
  REPORT("other code each time, mapped twice", 20000, put(w, r); call(x));
  return sum == 1;
}
