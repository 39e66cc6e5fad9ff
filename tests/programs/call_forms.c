// build: -O2 | -O2 -no-pie | -O2 -static-pie | -O2 -static
// Every form of indirect call and jump: register, memory, rip-relative, rsp-relative, fs-relative, scaled index; call through rsp slot.
#include <stdio.h>
long forms(long n);
extern void *slot_f;
__asm__(".data\n.globl slot_f\nslot_f: .quad f1\ntab: .quad f1,f2,f3\nslot_j: .quad fj\n.text\n.globl forms\n"
"f1: lea 1(%rax,%rax,2),%rax\n ret\nf2: xor $0x35,%rax\n ret\nf3: sub %rbx,%rax\n ret $8\nfj: add $1000,%rax\n ret\n"
"tail: jmp *slot_j(%rip)\n"
"forms: push %rbx\n push %rbp\n mov %rdi,%rax\n mov %rdi,%rbx\n"
" call *slot_f(%rip)\n lea f2(%rip),%rcx\n call *%rcx\n"
" push %rcx\n call *(%rsp)\n pop %rcx\n"                              // call [rsp]
" push %rcx\n push $0\n call *8(%rsp)\n add $16,%rsp\n"               // call [rsp+8]: address before the push of the return address
" lea tab(%rip),%rdx\n mov $1,%esi\n call *(%rdx,%rsi,8)\n"
" push $0\n call *16(%rdx)\n"                                         // f3 pops 8 bytes more
" lea tab(%rip),%rbp\n call *8(%rbp)\n lea -8(%rdx),%r12\n"
" call tail\n"
" lea f1(%rip),%r13\n call *%r13\n lea f2(%rip),%r11\n push %r11\n call 9f\n"
" pop %r11\n pop %rbp\n pop %rbx\n ret\n"
"9: jmp *8(%rsp)\n");                                                 // jmp [rsp+8]
int main(void) {
  for (long i = 0; i < 50; i++) {
    long r; __asm__ volatile("call forms" : "=a"(r) : "D"(i) : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "memory", "cc");
    printf("%ld\n", r);
  }
}
