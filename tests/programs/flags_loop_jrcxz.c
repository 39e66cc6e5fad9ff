// build: -O2 | -O2 -no-pie
// loop, loope, loopne, jrcxz, jecxz (and their 32-bit counter forms), flags untouched by them.
#include <stdio.h>
long f_loop(long n), f_loope(const char *p, long n), f_loopne(const char *p, long n), f_jrcxz(long n), f_jecxz(long n), f_loopl(long n), f_carry(long n);
__asm__(".text\n.globl f_loop,f_loope,f_loopne,f_jrcxz,f_jecxz,f_loopl,f_carry\n"
"f_loop: mov %rdi,%rcx\n xor %eax,%eax\n1: add %rcx,%rax\n loop 1b\n ret\n"
"f_loope: mov %rsi,%rcx\n1: inc %rdi\n cmpb $'a',-1(%rdi)\n loope 1b\n mov %rcx,%rax\n setz %dl\n movzbl %dl,%edx\n lea (%rdx,%rax,2),%rax\n ret\n"
"f_loopne: mov %rsi,%rcx\n1: inc %rdi\n cmpb $'b',-1(%rdi)\n loopne 1b\n mov %rcx,%rax\n setz %dl\n movzbl %dl,%edx\n lea (%rdx,%rax,2),%rax\n ret\n"
"f_jrcxz: mov %rdi,%rcx\n stc\n jrcxz 1f\n mov $5,%eax\n ret\n1: sbb %rax,%rax\n ret\n"
"f_jecxz: mov %rdi,%rcx\n stc\n jecxz 1f\n mov $5,%eax\n ret\n1: sbb %rax,%rax\n ret\n"
"f_loopl: mov %rdi,%rcx\n xor %eax,%eax\n1: inc %eax\n .byte 0x67\n loop 1b\n shl $32,%rcx\n or %rcx,%rax\n ret\n"
"f_carry: mov %rdi,%rcx\n xor %eax,%eax\n stc\n1: adc %rax,%rax\n loop 1b\n pushf\n pop %rdx\n and $0x8d5,%edx\n shl $32,%rdx\n or %rdx,%rax\n ret\n");
int main(void) {
  for (long n = 1; n < 40; n += 7) printf("%ld %ld %lx\n", f_loop(n), f_loopl(n | 0x700000000), f_carry(n));
  printf("%ld %ld %ld %ld\n", f_loope("aaaab", 9), f_loope("aaaaa", 5), f_loopne("aaaab", 9), f_loopne("xxxxx", 5));
  printf("%ld %ld %ld %ld %ld\n", f_jrcxz(0), f_jrcxz(1), f_jecxz(0), f_jecxz(0x100000000), f_jecxz(3));
}
