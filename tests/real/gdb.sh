# needs: gdb gcc
# A debugger as the program that is observed, with breakpoints, watchpoints, signals and threads in what it debugs.
cat >a.c <<'S'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
int shared; void handler(int s) { shared += s; }
int leaf(int x) { return x * 3 + 1; }
void *run(void *p) { for (int i = 0; i < 5; i++) shared = leaf(shared) & 255; return p; }
int main(void) { signal(SIGUSR1, handler); raise(SIGUSR1); pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0); int v = 0; for (int i = 0; i < 4; i++) v = leaf(v); printf("%d %d\n", shared, v); return v & 7; }
S
gcc -g -O0 -pthread -o a a.c
t gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'set style enabled off' -ex 'handle SIGUSR1 nostop noprint' -ex 'break leaf' -ex 'run >out' -ex 'print x' -ex bt -ex 'delete' -ex 'break main.c:1' -ex 'watch shared' -ex c -ex c -ex 'delete' -ex 'stepi 20' -ex 'info registers rip' -ex 'call leaf(5)' -ex c ./a 2>/dev/null | grep -v -i 'thread\|libthread\|warning\|rip\|0x' | sed 's/process [0-9]*/process/'; cat out
