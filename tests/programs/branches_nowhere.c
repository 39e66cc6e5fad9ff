// build: -O1 -w -fcf-protection=none | -O1 -w -fcf-protection=none -static
// Branches to where nothing can be executed: what the handler of the fault is told, again and again; from registers, memory and the stack; with near branches that have an operand size prefix; and no handler's word where one goes on behind.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
static sigjmp_buf back; static long rip, addr, err, trap, rsp, below; static int sig, code; static char *none, *nx; static volatile long to;
static void on_fault(int s, siginfo_t *i, void *c) {
  greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs; sig = s; code = i->si_code; addr = (long)i->si_addr; rip = g[REG_RIP]; err = g[REG_ERR]; trap = g[REG_TRAPNO]; rsp = g[REG_RSP]; below = 0; siglongjmp(back, 1);
}
extern char ret_at[], ret_8_at[], call_at[], jmp_at[], call_mem_at[], rip_call_at[];
void ret_to(long), ret_8_to(long), call_to(long), jmp_to(long), call_mem(volatile long *), rip_call(void);
__asm__(".text\nret_to: push %rdi\nret_at: ret\nret_8_to: push %rdi\nret_8_at: ret $8\ncall_to: sub $8,%rsp\ncall_at: call *%rdi\njmp_to: mov %rdi,%rax\njmp_at: jmp *%rax\n"
        "call_mem: mov $2,%ecx\n sub $8,%rsp\ncall_mem_at: call *-16(%rdi,%rcx,8)\nrip_call: sub $8,%rsp\nrip_call_at: call *to(%rip)\n");
static void say(const char *what, char *at) { printf("%s: signal %d code %d trap %ld error %lx rip %s address %s\n", what, sig, code, trap, err, rip == (long)at ? "there" : "elsewhere", !addr ? "none" : addr == to ? "the target" : "other"); }
#define TRY(what, at, do_) for (int n = 0; n < 3; n++) { if (!sigsetjmp(back, 1)) { do_; puts(what ": nothing happened"); } else if (n == 2) say(what, (char *)(at)); }
int main(void) {
  static char alt[65536]; stack_t st = {.ss_sp = alt, .ss_size = sizeof alt}; sigaltstack(&st, 0); struct sigaction a; memset(&a, 0, sizeof a); a.sa_sigaction = on_fault; a.sa_flags = SA_SIGINFO | SA_ONSTACK; sigaction(SIGSEGV, &a, 0); sigaction(SIGBUS, &a, 0); sigaction(SIGILL, &a, 0);
  none = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); nx = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); nx[0] = 0xc3;
  long targets[] = {0, (long)none, (long)nx, 0x7ffffffff000, 0xffffffff81000000, 0xffffffffff600010}; char text[64];
  for (int i = 0; i < 6; i++) { to = targets[i]; printf("target %d\n", i); TRY("call", to, call_to(to)); TRY("jmp", to, jmp_to(to)); TRY("ret", to, ret_to(to)); TRY("call through memory", to, call_mem(&to)); }
  long nowhere[] = {0x1234567812345678, 0x8000000000000000, 0x0000800000000000, 0x00dead0000beef00};
  for (int i = 0; i < 4; i++) { to = nowhere[i]; printf("nowhere %d\n", i); TRY("call", call_at, call_to(to)); /* Which jump it was is not known for sure: docs/limits.md. */ TRY("jmp", rip, jmp_to(to)); TRY("call through memory", call_mem_at, call_mem(&to)); TRY("call beside", rip_call_at, rip_call()); }
  // The stack is as before the branch.
  long *s; to = nowhere[0]; if (!sigsetjmp(back, 1)) { __asm__ volatile("mov %%rsp,%0; call *%1" : "=&r"(s) : "r"(to) : "memory"); } else printf("stack %s\n", rsp % 8 ? "moved" : "aligned");
  // Short branches with an operand size prefix, in low memory: on some processors they are cut to 16 bits.
  static const unsigned char forms[][8] = {{0x66, 0xe8, 16, 0, 0, 0, 0x90, 0xc3}, {0x66, 0xe9, 16, 0, 0, 0, 0x90, 0xc3}, {0x66, 0xeb, 16, 0x90, 0x90, 0x90, 0x90, 0xc3}, {0x66, 0x48, 0xe8, 1, 0, 0, 0, 0xc3}};
  unsigned char *p = mmap((void *)0x2000000, 8192, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  for (int i = 0; i < 4; i++) { memset(p, 0x90, 256); p[200] = 0xc3; memcpy(p, forms[i], 8); sig = 0; rip = 0; if (!sigsetjmp(back, 1)) ((void (*)(void))p)(); printf("form %d: signal %d rip %#lx\n", i, sig, rip); }
}
