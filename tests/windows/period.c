// A loop that does the same in each turn, every instruction of it told by its address: windows in it are
// compared with a period that was single-stepped. With `fault` each turn causes a fault, whose handler
// goes on behind it, and makes a system call.
//
// period TURNS [fault]
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

uint64_t table[2], faults;
uint8_t from[16], to[16];
void *target;

__asm__(
    ".text\n"
    ".globl turn_start, turns, fault_at, fault_end\n"
    ".globl plain, deep\n plain: lea 1(%rax), %rax\n ret\n"
    "deep: push %rbx\n call plain\n pop %rbx\n ret $0\n"
    // rdi: turns; rsi: where a word may be read, or not
    "turns: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "  mov %rdi, %r15\n mov %rsi, %r14\n"
    "turn_start:\n"
    "  mov $9, %ebx\n xor %eax, %eax\n xor %edx, %edx\n"
    "1: test $1, %bl\n jz 2f\n call plain\n add $3, %rax\n jmp 3f\n"
    "2: mov table(,%rdx,8), %rcx\n call *%rcx\n"
    "3: and $1, %edx\n inc %edx\n and $1, %edx\n dec %ebx\n jnz 1b\n"
    "  mov $5, %ecx\n lea from(%rip), %rsi\n lea to(%rip), %rdi\n rep movsb\n"
    "  mov $3, %ecx\n"
    "4: add %rcx, %rax\n loop 4b\n"
    "  jrcxz 5f\n ud2\n"
    "5: test %edx, %edx\n cmovz %rax, %rdx\n lea 6f(%rip), %rcx\n jmp *%rcx\n ud2\n"
    "6: nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n"
    "   nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n"
    "   nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n"
    "fault_at: mov (%r14), %r8\n"
    "fault_end:\n"
    "  movups from(%rip), %xmm3\n movups %xmm3, to(%rip)\n"
    "  dec %r15\n jnz turn_start\n"
    "  pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

extern char turn_start[], fault_at[], fault_end[], plain[], deep[];
void turns(uint64_t n, void *at);

static void on_fault(int signal, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    if ((char *)c->uc_mcontext.gregs[REG_RIP] != fault_at || info->si_addr != (void *)8)
        _exit(3);
    c->uc_mcontext.gregs[REG_RIP] = (greg_t)fault_end;
    faults++;
}

int main(int argc, char **argv)
{
    static char text[64];
    static uint64_t word;
    uint64_t n = strtoull(argv[1], 0, 10);
    int fault = argc > 2;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    table[0] = (uint64_t)plain;
    table[1] = (uint64_t)deep;
    // The test reads the address before anything else happens.
    for (int i = 0; i < 16; i++)
        text[i] = "0123456789abcdef"[(uint64_t)turn_start >> (60 - 4 * i) & 15];
    text[16] = '\n';
    write(1, text, 17);
    turns(n, fault ? (void *)8 : &word);
    if (faults != (fault ? n : 0))
        return 4;
    return 0;
}
