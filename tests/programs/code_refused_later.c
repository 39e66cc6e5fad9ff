// The process asks that nothing becomes executable any more (PR_SET_MDWE), having pages with code that stay writable; then come threads, a child, more code and another program.
// build: -O2 -pthread | -O0 -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned char code[6] = {0xb8, 1, 0, 0, 0, 0xc3}; static char *p, *fixed;
static int call(char *at) { int s = 0; for (int i = 0; i < 300; i++) s += ((int (*)(void))at)(); return s; }
static void *thread(void *x) { return (void *)(long)call(p); }
static int refused(void *m) { return m == MAP_FAILED ? errno : 0; }
int main(void) {
  p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memcpy(p, code, 6); printf("%d\n", call(p));
  fixed = mmap(0, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memcpy(fixed, code, 6); memcpy(fixed + 4096, code, 6); mprotect(fixed, 8192, 5);
  printf("wrong %d %d\n", prctl(65, 64, 0, 0, 0) ? errno : 0, prctl(65, 1, 1, 0, 0) ? errno : 0);
  printf("prctl %d %d\n", prctl(65, 1, 0, 0, 0) ? errno : 0, prctl(66, 0, 0, 0, 0)); fflush(stdout);
  for (int i = 2; i < 80; i++) { p[1] = i; if (call(p) != 300 * i) { printf("wrong at %d\n", i); return 1; } }
  printf("refused %d %d %d\n", refused(mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), mprotect(p, 4096, 7) ? errno : 0, mprotect(fixed, 4096, 3) ? errno : 0);
  printf("code %d %d\n", call(fixed + 4096), mprotect(fixed, 4096, 5) ? errno : 0);
  pthread_t t; void *r; pthread_create(&t, 0, thread, 0); pthread_join(t, &r); printf("thread %ld\n", (long)r); fflush(stdout);
  pid_t k = fork(); if (!k) { p[1] = 3; _exit(call(p) == 900 ? 7 : 8); } int s; waitpid(k, &s, 0); printf("child %x\n", s); fflush(stdout);
  k = fork(); if (!k) { execl("/bin/sh", "sh", "-c", "echo executed; exit 5", (char *)0); _exit(9); } waitpid(k, &s, 0); printf("program %x\n", s);
  return 0;
}
