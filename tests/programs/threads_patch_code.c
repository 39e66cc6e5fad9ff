// build: -O2 -pthread | -O2 -pthread -static
// Threads execute code while another changes it by single stores: the target of a call, the constant of an instruction, a jump over a nop and back. Each must be the old or the new, and the new when it is known to be there.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { THREADS = 3, CHANGES = 300 };
static unsigned char *p;
static atomic_int round_, done, wrong, seen[THREADS];
static int call(void) { return ((int (*)(void))p)(); }
static void *executes(void *n) {
  int me = (int)(long)n;
  while (!atomic_load(&done)) {
    int before = atomic_load(&round_), got = call(), after = atomic_load(&round_);
    // The round that its constant is from. A thread in a function may meet the constant of the next.
    int k = got >> 2;
    if (k < before - 1 || k > after + 1) atomic_fetch_add(&wrong, 1);
    atomic_store(&seen[me], k);
  }
  return 0;
}
int main(void) {
  pthread_t t[THREADS];
  p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // 0: nop dword [rax+rax+0] (5, at 3 mod 8) ; ...: call f ; ret. f at 64+32k: mov eax,imm ; ret
  memcpy(p, "\x0f\x1f\x00\xe8\x00\x00\x00\x00\xc3", 9);
  for (int f = 0; f < 2; f++) memcpy(p + 64 + 32 * f, "\x66\x90\x90\xb8\x00\x00\x00\x00\x0f\x1f\x00\xeb\x00\x83\xc8\x01\xc3", 17);
  *(atomic_int *)(p + 4) = 64 - 8;
  for (long i = 0; i < THREADS; i++) if (pthread_create(&t[i], 0, executes, (void *)i)) return 1;
  for (int k = 1; k <= CHANGES; k++) {
    int f = k & 1;
    *(atomic_int *)(p + 64 + 32 * f + 4) = k << 2;               // the constant of the other function
    ((atomic_char *)p)[64 + 32 * f + 12] = k & 2 ? 3 : 0;        // jump over `or eax,1` or not
    *(atomic_int *)(p + 4) = 64 + 32 * f - 8;                    // the call
    atomic_store(&round_, k);
    if (k % 10 == 0) for (int i = 0; i < THREADS; i++) while (atomic_load(&seen[i]) < k - 1) usleep(50);
  }
  atomic_store(&done, 1);
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
  printf("%d wrong\n", wrong);
}
