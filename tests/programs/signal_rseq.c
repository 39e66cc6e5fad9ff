// build: -O2 -pthread | -O2 -static -pthread
// Restartable sequences as glibc registers them: counters of each processor, raised without a lock by threads that are interrupted all
// the time, come to the sum.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/time.h>
static long counters[1024][8]; static volatile int ticks;
static inline struct rseq *area(void) { return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset); }
static int raise_own(void) {
  struct rseq *r = area(); uint32_t cpu = *(volatile uint32_t *)&r->cpu_id_start; long *counter = counters[cpu];
  __asm__ goto(
      ".pushsection __rseq_cs,\"aw\"\n .balign 32\n 3: .long 0,0\n .quad 1f,(2f-1f),4f\n .popsection\n"
      "lea 3b(%%rip), %%rax\n mov %%rax, %[cs]\n 1: cmp %[cpu], %[now]\n jne 4f\n mov (%[counter]), %%rax\n inc %%rax\n mov %%rax, (%[counter])\n 2:\n"
      ".pushsection __rseq_failure,\"ax\"\n .byte 0x0f,0xb9,0x3d\n .long 0x53053053\n 4: jmp %l[again]\n .popsection\n"
      : : [cs] "m"(r->rseq_cs), [now] "m"(r->cpu_id), [cpu] "r"(cpu), [counter] "r"(counter) : "rax", "memory", "cc" : again);
  return 1;
again:
  return 0; }
enum { N = 4, EACH = 300000 };
static void *work(void *p) { (void)p; for (int i = 0; i < EACH;) i += raise_own(); return NULL; }
static void tick(int s) { (void)s; ticks++; }
int main(void) {
  if (!__rseq_size || area()->cpu_id > 1023) { printf("no rseq\n"); return 0; }
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_handler = tick; sa.sa_flags = SA_RESTART; sigaction(SIGALRM, &sa, NULL); struct itimerval it = {{0, 200}, {0, 200}}; setitimer(ITIMER_REAL, &it, NULL);
  pthread_t t[N]; for (int i = 0; i < N; i++) pthread_create(&t[i], NULL, work, NULL); for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
  long sum = 0; for (int i = 0; i < 1024; i++) sum += counters[i][0]; printf("%ld\n", sum);
}
