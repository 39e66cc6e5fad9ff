// build: -O2 | -O2 -no-pie | -O2 -static
// call-next/pop, ret imm16, return to a modified address, push/ret as a jump, calls with no return, returns with no call.
#include <stdio.h>
long getpc(void), skip(long a), pushret(long a), noret(long a), retimm(long a), twice(long a);
__asm__(".text\n.globl getpc,skip,pushret,noret,retimm,twice\n"
"getpc: call 1f\n1: pop %rax\n lea 1b(%rip),%rcx\n sub %rcx,%rax\n ret\n"
"bump: addq $5,(%rsp)\n ret\n"                                        // returns past a 5-byte instruction
"skip: mov %rdi,%rax\n call bump\n mov $0x11111111,%eax\n add $1,%rax\n ret\n"
"pushret: mov %rdi,%rax\n lea 1f(%rip),%rcx\n push %rcx\n ret\n ud2\n1: add $7,%rax\n lea 2f(%rip),%rcx\n push %rcx\n ret $0\n2: ret\n"
"noret: mov %rdi,%rax\n call 1f\n ud2\n1: add $8,%rsp\n add $3,%rax\n ret\n"   // drops the return address
"cal: mov 8(%rsp),%rax\n add 16(%rsp),%rax\n ret $16\n"
"retimm: push %rdi\n push $40\n call cal\n ret\n"
"up2: add $16,%rsp\n ret\n"                                           // returns two frames up
"mid: push $1\n add $8,%rsp\n call 1f\n ud2\n1: add $8,%rsp\n sub $8,%rsp\n jmp up2x\n"
"up2x: add $16,%rsp\n add $21,%rax\n ret\n"
"inner: call mid\n ud2\n"
"twice: mov %rdi,%rax\n call inner\n add $100,%rax\n ret\n");
int main(void) { for (long i = 0; i < 40; i++) printf("%ld %ld %ld %ld %ld %ld\n", getpc(), skip(i), pushret(i), noret(i), retimm(i), twice(i)); }
