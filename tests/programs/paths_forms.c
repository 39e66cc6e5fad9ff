// Ways through code that an acyclic path may take: long ones, with indirect jumps in them, and interrupted ones.
// With "left" handlers are left by a jump, with "moved" they move the program on; with "_exit", "killed" and "exec" it
// ends in the middle of one; with "threads" four threads go the same ways; with "ticking" signals interrupt them.
// build: -O2 -pthread | -O1 -pthread -no-pie
// run:
// run: left
// run: moved
// run: _exit
// run: killed
// run: exec
// run: threads
// run: ticking
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#define ONE(k) if (x >> (k) & 1) __asm__ volatile("add $1, %0" : "+r"(s) :: "cc");
#define EIGHT(k) ONE(k) ONE(k + 1) ONE(k + 2) ONE(k + 3) ONE(k + 4) ONE(k + 5) ONE(k + 6) ONE(k + 7)
#define BITS EIGHT(0) EIGHT(8) EIGHT(16) EIGHT(24) EIGHT(32) EIGHT(40) EIGHT(48) EIGHT(56)
#define SWITCH(n) switch (x >> (n) & 7) { \
  case 0: s += x * 3; break; case 1: s ^= x; break; case 2: s -= n; break; case 3: s = s * 5 + x; break; \
  case 4: s ^= s >> 7; break; case 5: s += 77; break; case 6: s = ~s; break; default: s -= x >> 3; }
static unsigned long next(unsigned long *x) { *x = *x * 6364136223846793005ul + 1442695040888963407ul; return *x ^ *x >> 29; }
__attribute__((noinline)) static unsigned long straight(unsigned long x, unsigned long s) { BITS EIGHT(3) return s; }
__attribute__((noinline)) static unsigned long early(unsigned long x, unsigned long s) { ONE(1) SWITCH(9) EIGHT(0) SWITCH(17) EIGHT(20) return s; }
__attribute__((noinline)) static unsigned long middle(unsigned long x, unsigned long s) { EIGHT(0) EIGHT(8) SWITCH(11) EIGHT(16) EIGHT(24) EIGHT(32) return s; }
__attribute__((noinline)) static unsigned long late(unsigned long x, unsigned long s) { EIGHT(0) EIGHT(8) EIGHT(16) EIGHT(24) EIGHT(32) SWITCH(40) EIGHT(48) return s; }
__attribute__((noinline)) static unsigned long deep(unsigned long x, unsigned long s) { return x & 63 ? deep(x - 1, s + (x & 1)) * 3 + 1 : s; }
static volatile int seen; static volatile int again;
static sigjmp_buf out;
static char **words;
static const char *way = "";
/* An instruction that faults, of two bytes. */
#define FAULT __asm__ volatile("ud2" ::: "memory");
static void handler(int signal, siginfo_t *info, void *context) {
  ucontext_t *u = context;
  (void)info; seen += signal;
  if (signal == SIGILL) u->uc_mcontext.gregs[REG_RIP] += 2;
  if (signal == SIGUSR1 && again++ % 3 == 0) raise(SIGUSR2);
  if (signal == SIGUSR2 && !strcmp(way, "left") && seen % 2) siglongjmp(out, 1);
}
__attribute__((noinline)) static unsigned long interrupted(unsigned long x, unsigned long s) {
  EIGHT(0)
  if (x & 1) FAULT
  EIGHT(8)
  if (!strcmp(way, "moved") && (x & 2)) FAULT
  /* kill(getpid(), SIGUSR1), in the path. */
  long pid = getpid(), result;
  EIGHT(16)
  __asm__ volatile("syscall" : "=a"(result) : "a"(62), "D"(pid), "S"((long)SIGUSR1) : "rcx", "r11", "memory");
  EIGHT(24)
  return s + result;
}
__attribute__((noinline)) static unsigned long part(long id) {
  unsigned long x = id, s = 0;
  for (int i = 0; i < 20; i++) {
    s = straight(next(&x), s); s = early(next(&x) & 0x1f1f1fff1ful, s); s = middle(next(&x) & 0xff0f0f3f0ful, s);
    s = late(next(&x) & 0x7070707070707ul, s); s = deep(next(&x) & 31, s);
    s ^= straight(next(&x) & 1, s);
  }
  return s;
}
static unsigned long result[4];
static void *work(void *p) { long id = (long)p; result[id] = part(id); return NULL; }
__attribute__((noinline)) static void ends(unsigned long x, unsigned long s) {
  EIGHT(0)
  if (!strcmp(way, "_exit")) _exit(s & 0x3f);
  if (!strcmp(way, "killed")) kill(getpid(), SIGKILL);
  if (!strcmp(way, "exec")) { words[1] = NULL; execv("/proc/self/exe", words); }
}
int main(int argc, char **argv) {
  words = argv;
  if (argc > 1) way = argv[1];
  struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };
  sigaction(SIGUSR1, &a, NULL); sigaction(SIGUSR2, &a, NULL); sigaction(SIGILL, &a, NULL);
  if (!strcmp(way, "ticking")) {
    sigaction(SIGPROF, &a, NULL); sigaction(SIGALRM, &a, NULL);
    struct itimerval it = { { 0, 200 }, { 0, 200 } }; setitimer(ITIMER_PROF, &it, NULL); setitimer(ITIMER_REAL, &it, NULL);
    for (int n = 0; n < 200; n++) for (long i = 0; i < 4; i++) result[i] = part(i);
  } else if (!strcmp(way, "threads")) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  } else {
    for (long i = 0; i < 4; i++) result[i] = part(i);
    unsigned long x = 1;
    for (volatile int i = 0; i < 20; i++) if (!sigsetjmp(out, 1)) { next(&x); result[0] ^= interrupted(x >> 20, i); }
  }
  for (int i = 0; i < 4; i++) printf("%d %lu\n", i, result[i]);
  fflush(stdout);
  ends(result[0], 0);
  return 0;
}
