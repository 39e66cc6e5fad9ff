// build: -O2 -fno-inline | -O1 -fno-inline
// Functions that call each other in many contexts, the same in each run: recursion, also of two functions, callbacks, tail calls, a small
// interpreter. tests/contexts.rs compares what each comes to with callgrind.
#include <stdio.h>
#define KEEP __attribute__((noinline, noclone))

KEEP int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

KEEP int is_odd(int n);
KEEP int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
KEEP int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }

typedef int (*Order)(int, int);
KEEP int up(int a, int b) { return a - b; }
KEEP int down(int a, int b) { return b - a; }
KEEP int nearer(int a, int b) { return up(a % 100, b % 100); }
KEEP void swap(int *a, int *b) { int t = *a; *a = *b; *b = t; }
KEEP void sort(int *v, int n, Order order) {
    int last = 0;
    if (n < 2) return;
    swap(&v[0], &v[n / 2]);
    for (int i = 1; i < n; i++)
        if (order(v[i], v[0]) < 0) swap(&v[++last], &v[i]);
    swap(&v[0], &v[last]);
    sort(v, last, order);
    sort(v + last + 1, n - last - 1, order);
}

KEEP int add(int a, int b) { return a + b; }
KEEP int step(int op, int a) {
    switch (op) {
    case 0: return add(a, 1);
    case 1: return add(a, a);
    case 2: return fib(a & 7);
    case 3: return is_even(a & 15);
    case 4: return a ^ 21;
    case 5: return nearer(a, 40);
    case 6: return a >> 1;
    default: return a - 3;
    }
}
KEEP int interpret(int rounds) {
    static void *const labels[] = {&&one, &&two, &&three};
    int a = 1, n = 0;
    for (;;) {
        if (n++ == rounds) return a;
        goto *labels[n % 3];
    one: a = step(n & 7, a); continue;
    two: a = step(a & 7, a + n); continue;
    three: a = add(a, n) & 1023; continue;
    }
}

KEEP int all(int rounds) {
    static int v[300];
    unsigned x = 7;
    for (int i = 0; i < 300; i++) v[i] = (int)((x = x * 1103515245u + 12345u) >> 16 & 1023);
    sort(v, 300, up); sort(v, 300, nearer); sort(v, 300, down);
    return fib(14) + is_even(50) + v[7] + interpret(rounds);
}

int main(void) { printf("%d\n", all(2000)); return 0; }
