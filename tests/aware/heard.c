// A program that knows about trommel: `heard WHAT [quiet]`. What it does shows natively too; with `quiet` it makes no requests.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../include/trommel.h"

static volatile long sum;
__attribute__((noinline)) static void counted(long i) { sum += i; }
__attribute__((noinline)) static long looped(long n) {
  long s = 0;
  for (long i = 0; i < n; i++) { counted(i); s ^= sum; }
  return s;
}
static void put(unsigned char *p, int k) { memcpy(p, "\x8d\x87\0\0\0\0\xc3", 7); memcpy(p + 2, &k, 4); }
static int call(unsigned char *p, int n) { return ((int (*)(int))p)(n); }
static unsigned char *memory(void) { return mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

// Whether the kernel lets the program store to a page.
static int writable(void *p) {
  char line[256];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to;
    char may[8];
    if (sscanf(line, "%lx-%lx %7s", &from, &to, may) == 3 && from <= (unsigned long)p && (unsigned long)p < to) return may[1] == 'w';
  }
  return -1;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int quiet = argc > 2 && !strcmp(argv[2], "quiet");
  if (!strcmp(what, "answers")) {
    static struct trommel_counts c;
    unsigned char *p = memory();
    printf("present %ld\n", trommel_present());
    printf("hot %ld %ld\n", trommel_hot(main, (char *)main + 100), trommel_hot(main, main));
    printf("around %ld\n", trommel_hot((void *)-16, (void *)84));
    printf("changed %ld\n", trommel_changed(main, (char *)main + 100));
    printf("jit %ld\n", trommel_jit(p, p + 4096));
    printf("volatile %ld\n", trommel_volatile(p, p + 4096));
    printf("stop %ld\n", trommel_stop());
    printf("start %ld\n", trommel_start());
    printf("counts %ld", trommel_counts(&c));
    printf(" %d\n", c.dispatches > 100 && c.fragments > 10);
    printf("nowhere %ld\n", trommel_counts((void *)8));
    printf("unknown %ld\n", trommel_request((enum trommel_number)77, 1, 2));
  } else if (!strcmp(what, "part")) {
    for (long i = 0; i < 1000; i++) counted(i);
    trommel_stop();
    for (long i = 0; i < 500; i++) counted(i);
    if (!fork()) { for (long i = 0; i < 50; i++) counted(i); _exit(0); }
    wait(0);
    trommel_start();
    for (long i = 0; i < 250; i++) counted(i);
    printf("%ld\n", sum);
  } else if (!strcmp(what, "hot")) {
    struct trommel_counts before = {0}, after = {0};
    long s = 0;
    if (!quiet) trommel_hot(looped, (char *)looped + 256);
    trommel_counts(&before);
    for (int i = 0; i < 4; i++) s += looped(9);
    trommel_counts(&after);
    printf("%ld\n", s);
    fprintf(stderr, "traces %ld\n", (long)(after.traces - before.traces));
  } else if (!strcmp(what, "changed")) {
    unsigned char *p = memory();
    char name[64];
    long s = 0;
    sprintf(name, "/proc/%d/mem", getpid());
    for (int i = 0; i < 10; i++) {
      if (i == 0) put(p, 0);
      for (int n = 0; n < 100; n++) s = s * 31 + call(p, n), s &= 0xffffffffff;
      if (!fork()) {
        // No store of the process that executes it.
        unsigned char code[8];
        put(code, i * 1000);
        int f = open(name, O_WRONLY);
        _exit(f < 0 || pwrite(f, code, 7, (long)p) != 7);
      }
      int status;
      wait(&status);
      if (status) return 1;
      if (!quiet) trommel_changed(p, p + 7);
    }
    printf("%ld\n", s);
  } else if (!strcmp(what, "jit")) {
    unsigned char *p = memory();
    long s = 0;
    if (!quiet) trommel_jit(p, p + 4096);
    for (int i = 0; i < 50; i++) { put(p, i); s = s * 31 + call(p, i), s &= 0xffffffffff; }
    printf("%ld\n", s);
    fprintf(stderr, "writable %d\n", writable(p));
  } else if (!strcmp(what, "many")) {
    // A hundred thousand requests one behind the other.
    long n = 0;
    __asm__ volatile(".rept 100000\n.byte 0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x4d, 0x4c\n.endr" : "+a"(n) : "D"(1L << 32 | 1), "S"(0L), "d"(0L) : "memory");
    printf("passed\n");
  } else {
    return 2;
  }
  return 0;
}
