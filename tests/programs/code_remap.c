// build: -O2 | -O2 -static | -O2 -no-pie
// Code that is replaced while it may not be written: by mprotect, by mapping anew, by a file mapped at the same place. Called directly through one pointer, so that the lookup of indirect targets sees each change.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef int (*fn)(int);
static const unsigned char add_imm[] = {0x8d, 0x87, 0, 0, 0, 0, 0xc3};   // lea eax,[rdi+imm32]; ret
static void put(unsigned char *p, int k) { memcpy(p, add_imm, 7); memcpy(p + 2, &k, 4); }
__attribute__((noinline)) static long call(fn f, int n) { long s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }
int main(void) {
  long s = 0;
  unsigned char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 50; i++) { mprotect(p, 8192, PROT_READ | PROT_WRITE); put(p, i); put(p + 4096, -i); mprotect(p, 8192, PROT_READ | PROT_EXEC); s = s * 3 + call((fn)p, 20) + call((fn)(p + 4096), 3); s &= 0xffffffff; }
  printf("wx %ld\n", s);
  for (int i = 0; i < 50; i++) { munmap(p, 8192); unsigned char *q = mmap(p, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); put(q, i * 7); mprotect(q, 8192, PROT_READ | PROT_EXEC); s = s * 3 + call((fn)q, 5); s &= 0xffffffff; }
  printf("remap %ld\n", s);
  for (int i = 0; i < 5; i++) { unsigned char *q = mremap(p, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)); s = s * 3 + call((fn)q, 4); p = q; }
  printf("mremap %ld\n", s);
  for (int i = 0; i < 20; i++) {
    int fd = memfd_create("code", 0); unsigned char page[4096] = {0}; put(page, 1000 + i);
    if (fd < 0 || write(fd, page, 4096) != 4096) return 2;
    unsigned char *q = mmap(p, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0); close(fd);
    s = s * 3 + call((fn)q, 2); s &= 0xffffffff;
  }
  printf("file %ld\n", s);
}
