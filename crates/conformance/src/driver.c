// The driver of generated sequences: sets every register from a seed, runs one, prints what is left.
// With no argument it prints a line with a hash for each; with a number, that one's whole state.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long u64;
struct state { u64 gpr[16]; u64 flags; u64 mxcsr; u64 k[8]; unsigned char zmm[32][64]; unsigned char x87[112]; };
extern struct state st_in, st_out;
extern unsigned char buf[4096], app_stack[8192];
extern void (*const sequences[])(void);
extern const u64 sequence_count;
extern void (*volatile fn_slot)(void);
extern const char wide[];
void run_sequence(void);
static u64 x;
static u64 rnd(void) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return x; }
static void setup(u64 n, u64 seed) {
  x = (n + 1) * 0x9e3779b97f4a7c15 ^ seed; rnd(); rnd(); memset(&st_in, 0, sizeof st_in); memset(&st_out, 0, sizeof st_out);
  for (int i = 0; i < 16; i++) { u64 v = rnd(), s = rnd() % 6; st_in.gpr[i] = s == 0 ? v & 0xff : s == 1 ? -(v & 0xf) : s == 2 ? v >> 32 : s == 3 ? 1ul << (v & 63) : v; }
  st_in.flags = (rnd() & 0x8d5) | 0x202; st_in.mxcsr = 0x1f80 | (rnd() & 3) << 13;
  for (int i = 0; i < 8; i++) st_in.k[i] = rnd();
  for (int i = 0; i < 32; i++) for (int j = 0; j < 8; j++) { u64 v = rnd(); double d = (double)(long)(v >> 40) / 64 - 1000; if (i & 1) memcpy(&v, &d, 8); memcpy(st_in.zmm[i] + j * 8, &v, 8); }
  for (int i = 0; i < 4096; i += 8) { u64 v = rnd(); double d = (double)(v >> 44) / 32 + 1; if (i & 8) memcpy(&v, &d, 8); memcpy(buf + i, &v, 8); }
  for (int i = 0; i < 8192; i++) app_stack[i] = (unsigned char)(i * 37); }
static u64 fnv(u64 h, const void *p, size_t n) { const unsigned char *b = p; while (n--) { h ^= *b++; h *= 0x100000001b3; } return h; }
static void hex(const char *name, int i, const unsigned char *p, int n) { printf("%s%d ", name, i); while (n--) printf("%02x", p[n]); puts(""); }
int main(int c, char **v) {
  u64 seed = strtoul(v[1], 0, 10); long only = c > 2 ? atol(v[2]) : -1;
  for (u64 n = 0; n < sequence_count; n++) {
    if (only >= 0 && n != (u64)only) continue;
    // Several times, so that what is hot is made anew.
    for (int times = 0; times < 5; times++) { setup(n, seed); fn_slot = sequences[n]; run_sequence(); }
    st_out.flags &= 0xcd5; u64 h = fnv(14695981039346656037ul, &st_out, sizeof st_out); h = fnv(h, buf, 4096); h = fnv(h, app_stack, 8192);
    printf("seq %lu %016lx\n", n, h);
    if (only < 0) continue;
    static const char *names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
    for (int i = 0; i < 16; i++) printf("%s %016lx\n", names[i], st_out.gpr[i]);
    printf("flags %lx mxcsr %lx\n", st_out.flags, st_out.mxcsr);
    for (int i = 0; i < 8; i++) printf("k%d %016lx\n", i, st_out.k[i]);
    for (int i = 0; i < 32; i++) hex("zmm", i, st_out.zmm[i], 64);
    for (int i = 0; i < 8; i++) hex("st", i, st_out.x87 + 28 + i * 10, 10);
    for (int i = 0; i < 4096; i += 32) hex("buf+", i, buf + i, 32);
    for (int i = 6144; i < 8192; i += 32) hex("stack+", i, app_stack + i, 32);
  }
}
