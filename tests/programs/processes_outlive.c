// A child goes on when the first program has ended, and calls what it has not called before.
// build: -O1 -fno-inline
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int deep(int n) { return n ? deep(n - 1) + n % 3 : 0; }
static int alone(int n) { int v[64]; for (int i = 0; i < 64; i++) v[i] = (i * 37 + n) % 64; qsort(v, 64, sizeof *v, compare); return v[5] + deep(n); }
int main(void) {
  if (fork()) return 0;
  alarm(10);
  usleep(300000);
  int sum = 0;
  for (int i = 0; i < 200; i++) sum += alone(i % 20);
  printf("child %d\n", sum);
}
