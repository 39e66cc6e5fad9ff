// build: -O2 -pthread
// Code changed through /proc/self/mem, whatever its protection: memory that may be written, memory that may not, the program's own code; at offsets and at the file's position; by another thread.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
static unsigned char *code(int k) { static unsigned char c[7] = {0x8d, 0x87, 0, 0, 0, 0, 0xc3}; memcpy(c + 2, &k, 4); return c; }
static long s; static int fd;
static void call(void *p, int n) { s = (s * 31 + ((int (*)(int))p)(n)) & 0xffffffffffff; }
__attribute__((noipa, aligned(64))) static int own(int n) { return n * 3 + 1; }
static void *other(void *p) { for (int i = 0; i < 50; i++) pwrite(fd, code(i), 7, (intptr_t)p); return 0; }
int main(void) {
  unsigned char *w = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *x = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(w, code(1), 7); memcpy(x, code(2), 7); mprotect(x, 4096, PROT_READ | PROT_EXEC);
  call(w, 1); call(x, 2); call(own, 3);
  fd = open("/proc/self/mem", O_RDWR);
  if (fd < 0) return 1;
  for (int i = 0; i < 50; i++) {
    if (pwrite(fd, code(i), 7, (intptr_t)w) != 7 || pwrite(fd, code(i + 1), 7, (intptr_t)x) != 7) return 2;
    call(w, i); call(x, i);
    lseek(fd, (intptr_t)x, SEEK_SET); struct iovec v = {code(i + 7), 7};
    if (i & 1 ? write(fd, v.iov_base, 7) != 7 : writev(fd, &v, 1) != 7) return 3;
    call(x, i); call(own, i);
  }
  printf("%ld\n", s);
  if (pwrite(fd, code(77), 7, (intptr_t)own) == 7) call(own, 5);
  pthread_t t; pthread_create(&t, 0, other, w); while (s) { if (((int (*)(int))w)(0) == 49) break; } pthread_join(t, 0); call(w, 1);
  printf("%ld\n", s);
}
