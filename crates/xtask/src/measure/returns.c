// Treatments of calls and returns in a code cache, side by side: what each makes of a recursion whose every second
// return goes elsewhere (fib), and of a function called from 64 places in random order (sites). App addresses are
// numbers made up here; each treatment leaves them on the stack, but for the bound.
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// What GS points to: slots for rcx, rdx and the shadow stack's pointer, then a table of continuations, one of keys.
struct area {
  uint64_t rcx, rdx, shadow, pad;
  uint64_t first[65536], keys[65536];
};
__asm__(
    ".set RCX, 0\n.set RDX, 8\n.set SHADOW, 16\n.set FIRST, 32\n.set KEYS, 32+8*65536\n"
    // CALL name callee number, RET name: native.
    ".macro CALL_native callee, n\n call \\callee\\()_native\n.endm\n"
    ".macro RET_native\n ret\n.endm\n"
    // The bound: what is on the stack is not the app's.
    ".macro CALL_bound callee, n\n call \\callee\\()_bound\n.endm\n"
    ".macro RET_bound\n ret\n.endm\n"
    // Push the app's address, jump; look up at the return, check the tag at the target.
    ".macro CALL_lookup callee, n\n pushq k\\n(%rip)\n jmp \\callee\\()_lookup\n .p2align 3\n\\callee\\()_lookup_\\n:\n"
    " movabs $-(0x7f0000000000+\\n*0x1357),%rdx\n lea (%rcx,%rdx),%rcx\n jrcxz 9f\n ud2\n9: mov %gs:RCX,%rcx\n mov %gs:RDX,%rdx\n.endm\n"
    ".macro RET_lookup\n mov %rcx,%gs:RCX\n pop %rcx\n mov %rdx,%gs:RDX\n movzwl %cx,%edx\n jmp *%gs:FIRST(,%rdx,8)\n.endm\n"
    // A real call whose address is replaced by the app's; look up at the return, put the continuation back, return.
    ".macro CALL_real callee, n\n call 8f\n.pushsection .text.stubs,\"ax\",@progbits\n8: lea 8(%rsp),%rsp\n pushq k\\n(%rip)\n jmp \\callee\\()_real\n.popsection\n"
    "\\callee\\()_real_\\n:\n mov %gs:RCX,%rcx\n mov %gs:RDX,%rdx\n.endm\n"
    ".macro RET_real\n mov %rcx,%gs:RCX\n pop %rcx\n mov %rdx,%gs:RDX\n movzwl %cx,%edx\n pushq %gs:FIRST(,%rdx,8)\n"
    " mov %gs:KEYS(,%rdx,8),%rdx\n lea (%rcx,%rdx),%rcx\n jrcxz 9f\n ud2\n9: ret\n.endm\n"
    // A real call, its address on a shadow stack; returned to from there, the tag checked at the target.
    ".macro CALL_shadow callee, n\n call 8f\n.pushsection .text.stubs,\"ax\",@progbits\n8: mov %rdx,%gs:RDX\n mov %gs:SHADOW,%rdx\n pop -8(%rdx)\n lea -8(%rdx),%rdx\n"
    " mov %rdx,%gs:SHADOW\n mov %gs:RDX,%rdx\n pushq k\\n(%rip)\n jmp \\callee\\()_shadow\n.popsection\n"
    "\\callee\\()_shadow_\\n:\n movabs $-(0x7f0000000000+\\n*0x1357),%rdx\n lea (%rcx,%rdx),%rcx\n jrcxz 9f\n ud2\n9: mov %gs:RCX,%rcx\n mov %gs:RDX,%rdx\n.endm\n"
    ".macro RET_shadow\n mov %rcx,%gs:RCX\n mov %rdx,%gs:RDX\n pop %rcx\n mov %gs:SHADOW,%rdx\n pushq (%rdx)\n lea 8(%rdx),%rdx\n mov %rdx,%gs:SHADOW\n ret\n.endm\n"
    // The app's addresses.
    ".section .rodata\n.p2align 3\n.altmacro\n.macro KEY n\nk\\n: .quad 0x7f0000000000+\\n*0x1357\n.endm\n"
    ".set i,0\n.rept 68\n KEY %i\n.set i,i+1\n.endr\n.text\n"
    // The programs.
    ".macro FIB how\n.p2align 6\nfib_\\how: cmp $1,%edi\n jbe 1f\n push %rbp\n push %rbx\n mov %edi,%ebx\n lea -1(%rbx),%edi\n CALL_\\how fib, 64\n mov %eax,%ebp\n"
    " lea -2(%rbx),%edi\n CALL_\\how fib, 65\n add %ebp,%eax\n pop %rbx\n pop %rbp\n RET_\\how\n1: mov %edi,%eax\n RET_\\how\n"
    ".globl run_fib_\\how\nrun_fib_\\how: push %rbp\n push %rbx\n push %rbx\n CALL_\\how fib, 66\n pop %rbx\n pop %rbx\n pop %rbp\n ret\n.endm\n"
    ".macro SITE how, n\n.p2align 4\nsite_\\how\\()_\\n: CALL_\\how leaf, \\n\n jmp next_\\how\n.section .data.rel.ro,\"aw\",@progbits\n .quad site_\\how\\()_\\n\n.text\n.endm\n"
    ".macro SITES how\n.p2align 6\nleaf_\\how: imul $0x9e3779b1,%edi,%eax\n xor %eax,%ebp\n RET_\\how\n"
    ".globl run_sites_\\how\nrun_sites_\\how: push %rbp\n push %rbx\n push %r12\n mov %rdi,%rbx\n mov $1,%edi\n xor %ebp,%ebp\n"
    "next_\\how: dec %rbx\n jz 2f\n imul $1103515245,%edi,%edi\n add $12345,%edi\n mov %edi,%eax\n shr $20,%eax\n and $63,%eax\n lea sites_\\how(%rip),%r12\n jmp *(%r12,%rax,8)\n"
    "2: mov %ebp,%eax\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
    ".section .data.rel.ro,\"aw\",@progbits\n.p2align 6\nsites_\\how:\n.text\n"
    ".set i,0\n.rept 64\n SITE \\how, %i\n.set i,i+1\n.endr\n.endm\n"
    ".macro TABLE how\n.section .data.rel.ro,\"aw\",@progbits\n.globl targets_\\how\ntargets_\\how:\n.set i,0\n.rept 64\n ENTRY leaf, \\how, %i\n.set i,i+1\n.endr\n"
    " ENTRY fib, \\how, 64\n ENTRY fib, \\how, 65\n ENTRY fib, \\how, 66\n.text\n.endm\n"
    ".macro ENTRY callee, how, n\n .quad \\callee\\()_\\how\\()_\\n\n.endm\n"
    "FIB native\nFIB bound\nFIB lookup\nFIB real\nFIB shadow\nSITES native\nSITES bound\nSITES lookup\nSITES real\nSITES shadow\n"
    "TABLE lookup\nTABLE real\nTABLE shadow\n");

#define EACH(f) f(native) f(bound) f(lookup) f(real) f(shadow)
#define DECLARE(how) extern unsigned run_fib_##how(unsigned long), run_sites_##how(unsigned long);
EACH(DECLARE)
extern uint64_t targets_lookup[67], targets_real[67], targets_shadow[67];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(void) {
  struct area *area = mmap(0, sizeof *area, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t *shadow = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED || shadow == MAP_FAILED || syscall(SYS_arch_prctl, 0x1001, area)) return perror("area"), 1;
  struct {
    const char *name;
    uint64_t *targets;
    unsigned (*fib)(unsigned long), (*sites)(unsigned long);
  } ways[] = {
#define targets_native 0
#define targets_bound 0
#define WAY(how) {#how, targets_##how, run_fib_##how, run_sites_##how},
      EACH(WAY)};
  for (int i = 0; i < 5; i++) {
    area->shadow = (uint64_t)(shadow + (1 << 17) - 8);
    for (int k = 0; ways[i].targets && k < 67; k++) {
      uint64_t app = 0x7f0000000000 + k * 0x1357ul;
      area->first[app & 0xffff] = ways[i].targets[k];
      area->keys[app & 0xffff] = -app;
    }
    double a = now();
    unsigned x = ways[i].fib(36);
    double b = now();
    unsigned y = ways[i].sites(20000000);
    double c = now();
    if (x != 14930352) return fprintf(stderr, "%s: fib is %u\n", ways[i].name, x), 1;
    printf("%s\t%f\t%f\t%u\n", ways[i].name, b - a, c - b, y);
  }
}
