// build: -O2 | -O0 | -O3 -march=native | -O2 -no-pie | -O2 -static | -O2 -static-pie
// Switch statements compiled to jump tables, and computed goto (threaded code).
#include <stdio.h>
static __attribute__((noinline)) int sw(unsigned op, int x) {
  switch (op) { case 0: return x + 1; case 1: return x * 3; case 2: return x - 7; case 3: return x ^ 0x55; case 4: return -x;
  case 5: return x << 1; case 6: return x >> 1; case 7: return ~x; case 8: return x * x; case 9: return x % 17; case 10: return x | 8; default: return 0; } }
static int threaded(const unsigned char *p) {
  static const void *t[] = {&&inc, &&dbl, &&dec, &&jnz, &&end}; int a = 1, n = 50; const unsigned char *s = p;
  goto *t[*p++];
inc: a += 3; goto *t[*p++];
dbl: a = a * 2 % 10007; goto *t[*p++];
dec: n--; goto *t[*p++];
jnz: if (n) p = s; goto *t[*p++];
end: return a; }
int main(void) {
  int x = 5; unsigned s = 1; for (int i = 0; i < 2000; i++) { s = s * 1103515245 + 12345; x = sw((s >> 16) % 13, x) & 0xffffff; x += i; }
  static const unsigned char prog[] = {0, 1, 0, 2, 1, 3, 4};
  printf("%d %d\n", x, threaded(prog));
}
