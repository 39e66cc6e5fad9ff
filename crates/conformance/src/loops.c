// The driver of generated loops: sets every register from a seed, runs one, prints a hash of what is left and of what the handler of
// its faults saw, flags too unless FLAGS is in the environment: what counts destroys those that nobody but a handler looks at.
// With a number as argument it prints that one's whole state.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
typedef unsigned long u64;
extern u64 st_in[16], st_out[16], pointers[4];
extern unsigned char app_stack[8192], pages[32768];
extern void (*const sequences[])(void);
extern const u64 sequence_count;
extern void (*fn_slot)(void);
void run_sequence(void);
static u64 x, seen, faults; static int verbose;
static u64 rnd(void) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return x; }
static u64 fnv(u64 h, const void *p, size_t n) { const unsigned char *b = p; while (n--) { h ^= *b++; h *= 0x100000001b3; } return h; }
static void on_fault(int s, siginfo_t *i, void *c) {
  greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs; u64 all[20]; (void)s;
  for (int n = 0; n <= REG_RIP; n++) all[n] = (u64)g[n];
  all[17] = getenv("FLAGS") ? 0 : (u64)g[REG_EFL] & 0xcd5; all[18] = (u64)i->si_addr; all[19] = (u64)g[REG_ERR];
  seen = fnv(seen, all, sizeof all); seen = fnv(seen, app_stack, sizeof app_stack); faults++;
  if (verbose) { printf("fault"); for (int n = 0; n < 20; n++) printf(" %lx", all[n]); puts(""); }
  unsigned char *page = (unsigned char *)((u64)i->si_addr & ~4095ul);
  if (page < pages || page >= pages + sizeof pages || faults > 100000) { printf("stray fault at %p rip %lx\n", i->si_addr, all[REG_RIP]); exit(1); }
  mprotect(page, 4096, PROT_READ | PROT_WRITE); }
int main(int c, char **v) {
  u64 seed = strtoul(v[1], 0, 10); long only = c > 2 ? atol(v[2]) : -1;
  static char stack[65536]; stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack}; sigaltstack(&alt, 0);
  struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}; sigaction(SIGSEGV, &sa, 0);
  for (u64 n = 0; n < sequence_count; n++) {
    if (only >= 0 && n != (u64)only) continue;
    for (int times = 0; times < 6; times++) {
      x = (n + 1) * 0x9e3779b97f4a7c15 ^ seed; rnd(); rnd(); seen = 14695981039346656037ul; faults = 0; verbose = only >= 0 && times == 5;
      for (int i = 0; i < 15; i++) st_in[i] = rnd() >> (rnd() & 63);
      st_in[15] = (rnd() & 0x8d5) | 0x202;
      for (int i = 0; i < 8192; i++) app_stack[i] = (unsigned char)(i * 37);
      mprotect(pages, sizeof pages, PROT_READ | PROT_WRITE);
      for (int i = 0; i < 32768; i++) pages[i] = (unsigned char)(i * 7);
      pointers[1] = (u64)pages; pointers[3] = (u64)pages + 64;
      mprotect(pages + 4096, 4096, PROT_NONE); mprotect(pages + 8192, 4096, PROT_READ);
      fn_slot = sequences[n]; run_sequence(); }
    st_out[15] &= 0xcd5; u64 h = fnv(seen, st_out, sizeof st_out); h = fnv(h, app_stack, 8192);
    mprotect(pages, sizeof pages, PROT_READ | PROT_WRITE); h = fnv(h, pages, sizeof pages);
    printf("seq %lu faults %lu %016lx\n", n, faults, h);
    if (only < 0) continue;
    for (int i = 0; i < 16; i++) printf("st%d %016lx\n", i, st_out[i]);
    for (int i = 7000; i < 8192; i += 8) printf("stack+%d %016lx\n", i, *(u64 *)(app_stack + i));
  } }
