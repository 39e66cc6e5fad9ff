// build: -O2 -w | -O2 -w -static
// The x87 unit's record of its last instruction where instructions store it: fnstenv, fnsave, fxsave, xsave, in their short, narrow and wide forms, through
// all kinds of operands; right after that instruction, far after it, and one that the program has loaded itself. An exception is always
// pending: without one, some processors lose the record when the kernel switches threads.
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
static unsigned char area[4096] __attribute__((aligned(64))); static __thread unsigned char local[512] __attribute__((aligned(64)));
static long sum, bad; static unsigned short cw = 0x37b;
static unsigned word(void *p) { unsigned w; memcpy(&w, p, 4); return w; }
static long quad(void *p) { long w; memcpy(&w, p, 8); return w; }
// 32 bits of an address are all that the narrow forms hold.
static void is(const char *what, unsigned got, void *want) { if (got != (unsigned)(long)want && bad++ < 5) printf("%s: %x %d off\n", what, got, got - (unsigned)(long)want); sum++; }
static void is_short(const char *what, void *got, void *want) { unsigned short w; memcpy(&w, got, 2); is(what, w, (void *)((long)want & 0xffff)); }
static void is_wide(const char *what, long got, void *want) { if (got != (long)want && bad++ < 5) printf("%s: %lx %ld off\n", what, got, got - (long)want); sum++; }
#define DIVIDE "lea 1f(%%rip),%0; fninit; fldcw %2; fld1; fldz; 1: fdivrp; "
#define STORED(how, at) void *here; __asm__ volatile(DIVIDE how "; fninit" : "=&r"(here), "=m"(area) : "m"(cw), "r"(at), "r"(2l), "a"(1), "d"(0) : "memory")
static void environment(void) {
  unsigned char e[112];
  { STORED("fnstenv (%3)", e); is("fnstenv", word(e + 12), here); }
  { STORED("nop; fnstenv -8(%3,%4,4)", e); is("fnstenv, index", word(e + 12), here); }
  { STORED("fnstenv %1", e); is("fnstenv, rip", word(area + 12), here); }
  { STORED("fnstenv %%fs:(%3)", (long)local - (long)__builtin_thread_pointer()); is("fnstenv, fs", word(local + 12), here); }
  { STORED("fnsave (%3)", e); is("fnsave", word(e + 12), here); }
  // 16 bits; exceptions stay as they were for what comes after.
  { STORED("data16 fnstenv (%3)", e); is_short("short fnstenv", e + 6, here); }
  { STORED("data16 fnsave (%3)", e); is_short("short fnsave", e + 6, here); is("control", *(unsigned short *)e, (void *)(long)cw); }
  { STORED("data16 fnstenv %1; fnstenv 64+%1", area); is_short("short fnstenv, rip", area + 6, here); is("after it", word(area + 76), here); }
  { STORED("data16 fnsave %%fs:(%3)", (long)local - (long)__builtin_thread_pointer()); is_short("short fnsave, fs", local + 6, here); }
  // What the program has loaded itself: divided by zero, at an address of its own.
  __asm__ volatile("fninit; fnstenv (%0)" ::"r"(e) : "memory"); unsigned own = 0x12345; memcpy(e, &cw, 2); e[4] |= 4; memcpy(e + 12, &own, 4);
  __asm__ volatile("fldenv (%0); fnstenv 32(%0); fninit" ::"r"(e) : "memory"); is("own", word(e + 44), (void *)(long)own);
}
static void state(void) {
  { STORED("fxsave64 %1", area); is_wide("fxsave64", quad(area + 8), here); }
  { STORED("fxsave %1", area); is("fxsave", word(area + 8), here); }
  unsigned a, b, c, d; __cpuid(1, a, b, c, d); if (!(c & bit_OSXSAVE)) { sum += 4; return; }
  { STORED("xsave64 (%3)", area); is_wide("xsave64", quad(area + 8), here); }
  { STORED("xsave (%3)", area); is("xsave", word(area + 8), here); }
  // Not selected: nothing is stored there.
  long kept = 0x5555; memcpy(area + 8, &kept, 8);
  { STORED("mov $2,%%eax; xsave64 (%3); mov $1,%%eax", area); is_wide("xsave64 without", quad(area + 8), (void *)kept); }
  __cpuid_count(13, 1, a, b, c, d); if (!(a & 2)) { sum++; return; }
  { STORED("xsavec64 (%3)", area); is_wide("xsavec64", quad(area + 8), here); }
}
__attribute__((noinline)) static void far_after(long n) {
  void *here; unsigned char e[28];
  __asm__ volatile("lea 1f(%%rip),%0; fninit; fldcw %1; fld1; fldz; 1: fdivrp" : "=&r"(here) : "m"(cw)); for (volatile long i = 0; i < n; i++) ; __asm__ volatile("fnstenv %0; data16 fnsave %1" : "=m"(e), "=m"(area)); is("far after", word(e + 12), here); is_short("short, far after", area + 6, here);
}
int main(void) {
  for (int n = 0; n < 3000; n++) { environment(); if (n % 10 == 0) { state(); far_after(n % 50); } }
  // As the C library rounds.
  long double r = 0; for (int n = 0; n < 20000; n++) { unsigned char e[28]; long double x = n * 0.7L; __asm__ volatile("fnstenv %1; frndint; fldenv %1" : "+t"(x), "=m"(e)); r += x; }
  printf("%ld %.0Lf\n", sum, r);
}
