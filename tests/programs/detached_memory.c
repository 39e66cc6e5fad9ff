// Control ends for good, as the program does what cannot be followed: address space, limits, locks and places are as natively, with one thread, several, and in children.
// build: -O2 -pthread | -O0 -static -pthread
// run: gs
// run: step
// run: gs threads
// run: gs last
// run: gs child
// run: gs set
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define MB (1l << 20)
static long status(const char *key) {
  char text[4096]; FILE *f = fopen("/proc/self/status", "r"); size_t n = fread(text, 1, sizeof text - 1, f); fclose(f); text[n] = 0;
  char *at = strstr(text, key); return at ? atol(at + strlen(key) + 1) >> 10 : -1;
}
static int map(long count, long mb) { int got = 0; while (got < count && mmap(0, mb * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) got++; return got; }
static void limit(int what, long mb) {
  struct rlimit r = {mb * MB, mb * MB}, now; int set = setrlimit(what, &r); getrlimit(what, &now);
  printf("limit %d %d: %d and %d\n", set, !memcmp(&r, &now, sizeof r), map(8, 4), map(1, 256));
}
static void locks(int user) {
  if (user && setresuid(65534, 65534, 65534)) puts("no other user");
  int all = mlockall(MCL_CURRENT | MCL_FUTURE) ? errno : 0; printf("locked %d %d, %d of 2\n", all, status("VmLck") < 128, map(2, 1));
}
static void in_child(void (*f)(int), int a) { fflush(stdout); pid_t p = fork(); if (!p) { f(a); fflush(stdout); _exit(0); } int s; waitpid(p, &s, 0); if (s) printf("child %x\n", s); }
static void room(int mb) { printf("%d and %d\n", map(8, 32), map(1, mb)); }
static void as(int mb) { limit(RLIMIT_AS, mb); }
static void data(int mb) { limit(RLIMIT_DATA, mb); }
static void places(int step) {
  int got = 0; for (int n = 1; n <= 64; n++) { void *at = (void *)(0x550010000000 + (long)n * step * MB); got += mmap(at, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at; }
  printf("%d places\n", got);
}
static void whole(void) {
  // Threads may be on their way still.
  for (int n = 0; n < 2000 && status("VmSize") >= 128; n++) usleep(1000);
  printf("size %d, data %d\n", status("VmSize") < 128, status("VmData") < 64);
  in_child(as, 192); in_child(data, 128); in_child(locks, 0); in_child(locks, 1); in_child(places, 2); in_child(places, 512);
}
static void gs(void) { static long word = 7; long got = 0; syscall(SYS_arch_prctl, ARCH_SET_GS, &word); asm volatile("mov %%gs:0, %0" : "=r"(got)); printf("gs %ld\n", got); }
static void step(void) { asm volatile("pushfq; orl $0x100, (%%rsp); popfq; nop; pushfq; andl $~0x100, (%%rsp); popfq" ::: "memory", "cc"); puts("stepped"); }
static void trap(int s) { (void)s; }
static int ends[2]; static volatile int over;
static void *computes(void *x) { volatile long n = 0; while (!over) n++; return x; }
static void *naps(void *x) { while (!over) usleep(300); return x; }
static void *waits(void *x) { char c; long n = read(ends[0], &c, 1); return n == 1 ? x : 0; }
// Ends with the call after the one that it waits in.
static void *last(void *x) { long n; char c; asm volatile("syscall; mov $60, %%eax; xor %%edi, %%edi; syscall" : "=a"(n) : "a"(SYS_read), "D"((long)ends[0]), "S"(&c), "d"(1l) : "rcx", "r11", "memory"); return x; }
int main(int c, char **v) {
  struct sigaction a = {.sa_handler = trap}; sigaction(SIGTRAP, &a, 0); pipe(ends);
  const char *how = c > 2 ? v[2] : ""; pthread_t t[4]; int threads = 0;
  if (*how == 't') { void *(*all[])(void *) = {computes, naps, naps, waits}; for (; threads < 4; threads++) pthread_create(t + threads, 0, all[threads], v); }
  if (*how == 'l') { pthread_create(t + threads++, 0, last, 0); usleep(20000); }
  if (*how == 'c') { int s; pid_t p = fork(); if (p) { waitpid(p, &s, 0); printf("%x\n", s); return 0; } }
  if (*how == 's') { struct rlimit r = {300 * MB, 400 * MB}; setrlimit(RLIMIT_AS, &r); }
  if (v[1][0] == 'g') gs(); else step();
  if (threads) write(ends[1], "x", 1);
  if (*how == 's') { struct rlimit r; getrlimit(RLIMIT_AS, &r); printf("%ld %ld\n", (long)r.rlim_cur / MB, (long)r.rlim_max / MB); in_child(room, 300); }
  whole(); over = 1;
  for (int n = 0; n < threads; n++) { void *r; pthread_join(t[n], &r); printf("joined %d\n", r == v); }
  return 0;
}
