// build: -O2 | -O2 -static
// A small compiler of expressions: into memory that is writable, into memory that is protected in turns, and into memory that is mapped twice; each regenerated, some of it the same as before.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { SIZE = 16 * 4096, FUNCTIONS = 600 };
static unsigned char *rw, *rx, *w;
static unsigned x = 1;
static unsigned rnd(void) { return x = x * 1664525 + 1013904223, x >> 8; }
static void put(const void *from, int n) { memcpy(w, from, n); w += n; }
static void imm(int op, int v) { unsigned char c[5] = {op}; memcpy(c + 1, &v, 4); put(c, 5); }
static int function(int seed) { // eax = f(edi)
  int at = w - rw;
  put("\x89\xf8", 2);
  for (int n = seed % 7 + 1; n--;) switch (rnd() % 4) {
    case 0: imm(0x05, rnd()); break;
    case 1: imm(0x35, rnd()); break;
    case 2: put("\x0f\xaf\xc7", 3); break;
    default: put("\xa8\x01\x74\x02\xd1\xe8", 6); break;    // test al,1; jz +2; shr eax,1
  }
  put("\xc3", 1);
  return at;
}
static void all(const char *name, int turns) {
  static int at[FUNCTIONS];
  long s = 0;
  for (int round = 0; round < 40; round++) {
    if (turns && mprotect(rw, SIZE, PROT_READ | PROT_WRITE)) return;
    // Every fourth round all of it again, the same; else a part of it anew.
    int from = round % 4 ? (int)(rnd() % FUNCTIONS) : 0, to = round % 4 ? from + 20 : FUNCTIONS;
    if (round % 4 == 0) { x = 7; w = rw; }
    for (int i = from; i < to && i < FUNCTIONS; i++) {
      if (round % 4) w = rw + at[i] + SIZE / 2 - 64 * (i % 3);
      int now = function(i);
      if (round % 4 == 0) at[i] = now; else if (!turns) s += ((int (*)(int))(rx + now))(i);
    }
    if (turns && mprotect(rw, SIZE, PROT_READ | PROT_EXEC)) return;
    for (int i = 0; i < FUNCTIONS; i++) s = s * 31 + ((int (*)(int))(rx + at[i]))(round + i), s &= 0xffffffffffff;
  }
  printf("%s %ld\n", name, s);
}
int main(void) {
  rw = rx = mmap(0, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  all("writable", 0);
  all("in turns", 1);
  int fd = memfd_create("code", 0);
  if (ftruncate(fd, SIZE)) return 1;
  rw = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  rx = mmap(0, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  all("twice", 0);
}
