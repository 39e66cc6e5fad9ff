# needs: qemu-x86_64 gcc
# packages: qemu-user
# A translator under the translator: its code, its signals, its threads.
cat >a.c <<'S'
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static sigjmp_buf j; static void h(int s) { siglongjmp(j, s); }
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void *work(void *p) { *(long *)p = fib(20 + *(long *)p); return 0; }
int main(void) { signal(SIGSEGV, h); for (int i = 0; i < 20; i++) if (!sigsetjmp(j, 1)) *(volatile int *)8 = 1; pthread_t t[3]; long v[3]; for (int i = 0; i < 3; i++) { v[i] = i; pthread_create(t + i, 0, work, v + i); }
  for (int i = 0; i < 3; i++) pthread_join(t[i], 0); printf("%d %ld %ld %ld\n", fib(22), v[0], v[1], v[2]); return 7; }
S
gcc -O1 -static -pthread a.c -o a; t qemu-x86_64 ./a || echo "status $?"; t qemu-x86_64 /bin/sh -c 'echo a | cat; seq 2000 | sort -n | tail -1'
