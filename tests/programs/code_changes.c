// build: -O2 | -O2 -static | -O2 -no-pie
// Code that changes: RWX self-modification in a loop, W^X by mprotect, code on the stack page, unmap and remap at one address.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef int (*fn)(int);
static const unsigned char add_imm[] = {0x8d, 0x87, 0, 0, 0, 0, 0xc3};   // lea eax,[rdi+imm32]; ret
static void put(unsigned char *p, int k) { memcpy(p, add_imm, 7); memcpy(p + 2, &k, 4); }
int main(void) {
  unsigned char *p = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); long s = 0;
  for (int i = 0; i < 200; i++) { put(p, i * 3); s = s * 5 + ((fn)p)(i); p[2] ^= 1; s += ((fn)p)(i); s &= 0xffffffff; } printf("rwx %ld\n", s);
  for (int i = 0; i < 50; i++) { mprotect(p, 4096, PROT_READ | PROT_WRITE); put(p, i); mprotect(p, 4096, PROT_READ | PROT_EXEC); for (int j = 0; j < 20; j++) s += ((fn)p)(j); } printf("wx %ld\n", s);
  for (int i = 0; i < 50; i++) { munmap(p, 8192); unsigned char *q = mmap(p, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); put(q, i * 7); s += ((fn)q)(1); } printf("remap %ld\n", s);
  for (int i = 0; i < 5; i++) { unsigned char *q = mremap(p, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)); s += ((fn)q)(i); p = q; } printf("mremap %ld\n", s);
  int fd = memfd_create("code", 0); if (fd < 0) return 2; unsigned char page[4096] = {0}; put(page, 1);
  unsigned char *rw = 0, *rx = 0;
  if (write(fd, page, 4096) != 4096) return 4;
  rw = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); rx = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  for (int i = 0; i < 100; i++) { put(rw, i); s += ((fn)rx)(i); } printf("alias %ld\n", s);
  unsigned char st[64] __attribute__((aligned(64))); put(st, 1000); if (mprotect((void *)((unsigned long)st & ~4095ul), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) for (int i = 0; i < 20; i++) { put(st, i); s += ((fn)st)(i); } printf("stack %ld\n", s);
}
