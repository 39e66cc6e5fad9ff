// build: -O2 -pthread -Wl,-z,now
// More threads than there are banks of counters: one after another, then at a time, with the same work in each.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { IN_TURN = 300, AT_A_TIME = 90 };
static pthread_barrier_t all;
static unsigned long sums[AT_A_TIME];
static unsigned long step(unsigned long x) { return x * 6364136223846793005ul + 1442695040888963407ul; }
static unsigned long other(unsigned long x) { return x ^ (x >> 7); }
__attribute__((noinline)) static unsigned long work(unsigned long x) {
  static unsigned long (*const f[2])(unsigned long) = {step, other};
  for (int i = 0; i < 400; i++) { x = f[(x >> 33) & 1](x) + i; if (x & 4) x += 7; }
  return x;
}
static void *one(void *n) { sums[(long)n] += work((unsigned long)n + 1); return 0; }
static void *waiting(void *n) { one(n); pthread_barrier_wait(&all); return one(n); }
static void start(pthread_t *t, void *(*f)(void *), long n) { if (pthread_create(t, 0, f, (void *)n)) exit(1); }
int main(void) {
  pthread_t t[AT_A_TIME]; unsigned long sum = 0;
  for (long n = 0; n < IN_TURN; n++) { start(t, one, n % AT_A_TIME); pthread_join(t[0], 0); }
  pthread_barrier_init(&all, 0, AT_A_TIME);
  for (long n = 0; n < AT_A_TIME; n++) start(t + n, waiting, n);
  for (long n = 0; n < AT_A_TIME; n++) pthread_join(t[n], 0);
  for (long n = 0; n < AT_A_TIME; n++) sum ^= sums[n];
  printf("%lx\n", sum);
}
