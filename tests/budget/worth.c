// Threads that differ: twelve compute for a moment between system calls and sleeps, as those of a service do, and one starts threads that compute
// for 20 ms each, with a pause. For so many milliseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long end;
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000 + t.tv_nsec / 1000; }
__attribute__((noinline)) static long work(long n) { volatile long x = 0; for (long i = 0; i < n; i++) x += i & 3; return x; }
__attribute__((noinline)) static long chain(long n) { unsigned long x = 88172645463325252UL; for (long i = 0; i < n; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x; }
static void *serves(void *p) { while (now() < end) { for (int i = 0; i < 10; i++) getppid(); chain(100000); usleep(5000); } return p; }
static void *brief(void *p) { long until = now() + 20000; while (now() < until) work(20000); return p; }
static void *starts(void *p) {
  while (now() < end) {
    pthread_t t;
    pthread_create(&t, 0, brief, 0);
    pthread_join(t, 0);
    usleep(60000);
  }
  return p;
}
int main(int argc, char **argv) {
  pthread_t threads[13];
  end = now() + 1000 * atol(argv[1]);
  for (int i = 0; i < 13; i++) pthread_create(&threads[i], 0, i ? serves : starts, 0);
  for (int i = 0; i < 13; i++) pthread_join(threads[i], 0);
  puts("done");
}
