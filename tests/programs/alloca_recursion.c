// build: -O2 | -O0 | -O3 -march=native
// Recursion with alloca and variable-length arrays, then nearly all of an 8 MB stack.
#include <alloca.h>
#include <stdio.h>
#include <string.h>
static __attribute__((noinline)) long rec(int n) { if (n <= 0) return 1; char *p = alloca(n % 97 + 1); memset(p, n, n % 97 + 1); volatile int v[n % 13 + 1]; v[n % 13] = n; return p[n % 97] + v[n % 13] + rec(n - 1) % 1000003; }
static __attribute__((noinline)) long deep(long n) { volatile char pad[100]; pad[n % 100] = (char)n; if (n == 0) return 0; return deep(n - 1) + (pad[n % 100] & 1); }
int main(void) { printf("%ld\n", rec(20000)); printf("%ld\n", deep(45000)); }
