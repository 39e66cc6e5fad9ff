// build: -O2 | -O0 -no-pie | -O2 -static
// SIGFPE, SIGILL, SIGTRAP (int3), SIGBUS, non-canonical SIGSEGV: signal numbers, codes, and whether si_addr is the instruction.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
static sigjmp_buf jb; static volatile int sig, code, own, err; static volatile unsigned long ripoff; static char *volatile at;
static void h(int s, siginfo_t *i, void *c) { greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs; sig = s; code = i->si_code; own = (greg_t)i->si_addr == g[REG_RIP]; err = (int)g[REG_ERR]; ripoff = g[REG_RIP] - (unsigned long)at; siglongjmp(jb, 1); }
#define TRY(name, ...) do { if (!sigsetjmp(jb, 1)) { __asm__ volatile("lea 9f(%%rip),%%rcx\n mov %%rcx,%0\n9: " __VA_ARGS__); puts(name " passed"); } else printf("%s sig %d code %d own %d err %x off %lx\n", name, sig, code, own, err, ripoff); } while (0)
int main(void) {
  struct sigaction sa = {.sa_sigaction = h, .sa_flags = SA_SIGINFO}; int ss[] = {SIGFPE, SIGILL, SIGTRAP, SIGBUS, SIGSEGV};
  for (int i = 0; i < 5; i++) sigaction(ss[i], &sa, NULL);
  TRY("div0", "xor %%edx,%%edx\n xor %%esi,%%esi\n mov $5,%%eax\n div %%esi" : "=m"(at)::"rax", "rcx", "rdx", "rsi", "memory");
  TRY("divover", "mov $9,%%edx\n mov $1,%%esi\n div %%esi" : "=m"(at)::"rax", "rcx", "rdx", "rsi", "memory");
  TRY("ud2", "ud2" : "=m"(at)::"rcx", "memory");
  TRY("int3", "int3" : "=m"(at)::"rcx", "memory");
  TRY("hlt", "hlt" : "=m"(at)::"rcx", "memory");
  TRY("noncanon", "mov $0x1234,%%eax\n shl $48,%%rax\n mov (%%rax),%%rax" : "=m"(at)::"rax", "rcx", "memory");
  TRY("jmpnull", "xor %%eax,%%eax\n nop" : "=m"(at)::"rax", "rcx", "memory");
  FILE *t = tmpfile(); char *p = mmap(0, 4096, PROT_READ, MAP_SHARED, fileno(t), 0); if (p == MAP_FAILED) return 2;
  if (!sigsetjmp(jb, 1)) { volatile char c = *(volatile char *)p; (void)c; puts("no bus"); } else printf("bus sig %d code %d err %x\n", sig, code, err);
  if (!sigsetjmp(jb, 1)) { at = 0; ((void (*)(void))0x10)(); } else printf("call 0x10: sig %d code %d rip %lx own %d\n", sig, code, ripoff, own);
}
