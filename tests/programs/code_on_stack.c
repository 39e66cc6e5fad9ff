// build: -O1 -z execstack | -O2 -z execstack -pthread
// Code on the stack: trampolines of nested functions, called directly, through qsort and in depth, in the first thread and in another.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static long apply(long (*f)(long), int n) { long s = 0; for (int i = 0; i < n; i++) s = s * 3 + f(i); return s; }
static long deep(int n, long (*up)(long)) {
  long mine(long k) { return up ? up(k + n) : k * n; }
  return n == 0 ? apply(mine, 5) : deep(n - 1, mine) + apply(mine, 3);
}
static void *all(void *out) {
  long s = 0;
  for (int round = 1; round < 60; round++) {
    int sign = round & 1 ? 1 : -1, calls = 0, a[50];
    int order(const void *x, const void *y) { calls++; return sign * (*(const int *)x - *(const int *)y); }
    for (int i = 0; i < 50; i++) a[i] = i * 7919 % 101;
    qsort(a, 50, sizeof *a, order);
    s = s * 31 + a[3] + calls + deep(round % 12, 0), s &= 0xffffffffffff;
  }
  *(long *)out = s;
  return 0;
}
int main(void) {
  long s, t; pthread_t other;
  all(&s); printf("%ld\n", s);
  if (pthread_create(&other, 0, all, &t) || pthread_join(other, 0)) return 1;
  printf("%ld\n", t);
}
