// build: -O2 | -O3 -march=native | -O2 -static | -O2 -no-pie
// SIGALRM interrupts a compute loop (integers, flags, vectors, red zone) hundreds of times: the result is uncorrupted.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
static volatile sig_atomic_t ticks; static volatile double noise = 1.5;
static void h(int s) { (void)s; ticks++; for (int i = 0; i < 20; i++) noise = noise * 1.0000001 + i; char b[256]; memset(b, ticks, sizeof b); __asm__ volatile("" ::"r"(b) : "memory"); }
static __attribute__((noinline)) unsigned long leaf(unsigned long x) { volatile unsigned long t[8]; t[0] = x; t[7] = x ^ 5; return t[0] * 3 + t[7]; }
int main(void) {
  struct sigaction sa = {.sa_handler = h, .sa_flags = SA_RESTART}; sigaction(SIGALRM, &sa, NULL);
  struct itimerval it = {{0, 1000}, {0, 1000}}; setitimer(ITIMER_REAL, &it, NULL);
  unsigned long s = 1; double d = 0; float v[32] = {0}; long rounds = 0;
  unsigned long s0 = 0; int bad = 0;
  do {
    s = 1; d = 0; memset(v, 0, sizeof v);
    for (int i = 0; i < 200000; i++) { s = leaf(s) + (s >> 7); d = d * 0.5 + i; for (int j = 0; j < 32; j++) v[j] = v[j] * 0.25f + (float)(i & 15) + (float)j; if (s & 1) s += 11; }
    double t = 0; for (int j = 0; j < 32; j++) t += v[j]; s ^= (unsigned long)(d + t * 4096);
    if (rounds++ == 0) s0 = s; else bad += s != s0;
  } while (ticks < 150 || rounds < 3);
  memset(&it, 0, sizeof it); setitimer(ITIMER_REAL, &it, NULL);
  printf("%lx bad %d\n", s0, bad);
}
