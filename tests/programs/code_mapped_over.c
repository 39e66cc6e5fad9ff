// build: -O2 | -O2 -static
// Code that goes and comes with its mapping: dropped pages, other code mapped over it, moved away and back, grown, and given other keys.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static const int RWX = PROT_READ | PROT_WRITE | PROT_EXEC;
static long s;
static void put(unsigned char *p, int k) { memcpy(p, "\x8d\x87\0\0\0\0\xc3", 7); memcpy(p + 2, &k, 4); }
static void call(unsigned char *p, int n) { s = s * 31 + ((int (*)(int))p)(n), s &= 0xffffffffffff; }
int main(void) {
  unsigned char *p = mmap(0, 8 * 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
  for (int i = 0; i < 30; i++) {
    for (int n = 0; n < 8; n++) put(p + 4096 * n + 8 * i, i * n);
    for (int n = 0; n < 8; n++) call(p + 4096 * n + 8 * i, i);
    madvise(p + 4096 * (i % 8), 4096, MADV_DONTNEED);
    if (p[4096 * (i % 8) + 8 * i]) return 1;
    put(p + 4096 * (i % 8) + 8 * i, 77);
    for (int n = 0; n < 8; n++) call(p + 4096 * n + 8 * i, i);
  }
  printf("dropped %ld\n", s);
  for (int i = 0; i < 30; i++) {
    put(p, i); call(p, 1);
    q = mmap(0, 8 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mremap(p, 8 * 4096, 8 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, q) != q) return 2;
    call(q, 2); put(q, i + 100); call(q, 3);
    if (mmap(p, 8 * 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p) return 3;
    put(p, i + 200); call(p, 4); call(q, 5);
    munmap(q, 8 * 4096);
    if (mprotect(p, 4096, PROT_READ)) return 4;
    if (mprotect(p, 4096, PROT_READ | PROT_EXEC)) return 5;
    call(p, 6);
    if (mprotect(p, 4096, RWX)) return 6;
    put(p, i + 300); call(p, 7);
  }
  printf("moved %ld\n", s);
  int key = pkey_alloc(0, 0);
  for (int i = 0; i < 10; i++) {
    put(p, i + 5); call(p, i);
    if (key >= 0 ? pkey_mprotect(p, 8192, RWX, key) : mprotect(p, 8192, RWX)) return 7;
    put(p, i + 6); call(p, i);
    if (key >= 0) { pkey_set(key, PKEY_DISABLE_ACCESS); call(p, i + 1); pkey_set(key, 0); } else call(p, i + 1);
  }
  printf("keys %ld\n", s);
  // A copy of the process writes to the pages and executes them.
  fflush(stdout);
  call(p, 1);
  if (fork() == 0) { put(p, 9); call(p, 9); p[100] = 1; printf("child %ld\n", s); fflush(stdout); _exit(3); }
  int status; wait(&status);
  put(p, 10); call(p, 10);
  printf("parent %ld %d\n", s, WEXITSTATUS(status));
}
