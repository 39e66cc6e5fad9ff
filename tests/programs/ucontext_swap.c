// build: -O2 | -O0 | -O2 -static
// makecontext/swapcontext coroutines that switch stacks thousands of times.
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
static ucontext_t m, c[3]; static long acc; static int cur;
static void body(int id, int step) { for (int i = 0; i < 500; i++) { acc = acc * 31 + id * step + i; int me = cur; cur = (cur + 1) % 3; swapcontext(&c[me], &c[cur]); } }
int main(void) {
  for (int i = 0; i < 3; i++) { getcontext(&c[i]); c[i].uc_stack.ss_sp = malloc(65536); c[i].uc_stack.ss_size = 65536; c[i].uc_link = &m; makecontext(&c[i], (void (*)(void))body, 2, i + 1, i * 7 + 1); }
  swapcontext(&m, &c[0]); printf("%ld %d\n", acc, cur);
}
