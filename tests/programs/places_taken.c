// build: -O2 -pthread | -O2 -no-pie -pthread
// run: replace
// run: move
// run: unmap
// run: exchange
// run: replace threads
// run: replace child
// Memory at addresses of the program's choice, where trommel may have its own. Nobody else has anything there.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGE = 4096, PAGES = 16, BYTES = PAGE * PAGES };
// Of the low ones something is in use from the start on.
static const unsigned long places[] = {0x550100000000, 0x550040000000, 0x550010000000, 0x550004000000, 0x550000800000};
static long work(void) { volatile long sum = 0; for (int n = 0; n < 200000; n++) sum += n; return sum; }
static char *map(unsigned long at, int flags) {
  char *p = mmap((void *)at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return p == MAP_FAILED ? 0 : p;
}
static void use(char *p) {
  if (!p) { printf("refused: %s\n", strerror(errno)); return; }
  memset(p, 7, BYTES); work();
  int same = 0; for (int n = 0; n < BYTES; n++) same += p[n] == 7;
  printf("%d of %d\n", same, BYTES);
}
// Threads that wait in the kernel, sleep with a timeout, and compute, all the time.
static int ends[2]; static volatile int over; static volatile long sums[2];
static void *waits(void *x) { char byte = 0; long n = read(ends[0], &byte, 1); return (void *)(n * 100 + byte); }
static void *naps(void *x) { long n = 0; while (!over) n += usleep(500); return (void *)n; }
static void *computes(void *x) { volatile long *sum = x; while (!over) for (int n = 0; n < 1000; n++) ++*sum; return (void *)(*sum % 1000); }
int main(int c, char **v) {
  printf("%ld\n", work());
  int threads = c > 2 && v[2][0] == 't'; pthread_t t[4];
  if (threads) { void *(*all[])(void *) = {waits, naps, computes, computes}; pipe(ends); for (int n = 0; n < 4; n++) pthread_create(t + n, 0, all[n], (void *)(sums + n % 2)); work(); }
  if (c > 2 && v[2][0] == 'c') { fflush(stdout); int s, p = fork(); if (p) { waitpid(p, &s, 0); printf("child %x\n", s); return 0; } }
  for (unsigned n = 0; n < sizeof places / sizeof *places; n++) {
    void *at = (void *)places[n];
    switch (v[1][0]) {
      case 'f': use(map(places[n], MAP_FIXED_NOREPLACE)); break;
      case 'r': use(map(places[n], MAP_FIXED)); break;
      case 'm': { char *p = mremap(map(0, 0), BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, at); use(p == MAP_FAILED ? 0 : p); break; }
      case 'u': printf("%d\n", munmap(at, BYTES)); printf("%ld\n", work()); break;
      case 'a': case 'e': { int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600); char *p = shmat(id, at, v[1][0] == 'e' ? SHM_REMAP : 0); use(p == (char *)-1 ? 0 : p); shmctl(id, IPC_RMID, 0); break; }
      // What changes nothing is refused as where nothing is.
      case 'l': errno = 0; printf("%d", mprotect(at, BYTES, PROT_NONE)); printf(" %d", madvise(at, BYTES, MADV_DONTNEED)); printf(" %d", mremap(at, PAGE, PAGE, MREMAP_MAYMOVE) == MAP_FAILED); printf(" %d\n", errno); break;
    }
  }
  printf("%ld\n", work());
  if (threads) { over = 1; write(ends[1], "x", 1); for (int n = 0; n < 4; n++) { void *r; pthread_join(t[n], &r); printf("thread %ld\n", (long)r); } }
}
