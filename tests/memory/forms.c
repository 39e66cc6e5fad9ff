// Instructions that access memory in one form each, with the addresses that they access: the labels `at_…` name them, and it is said
// of each what its addresses are. Works for as many turns as its argument says.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Alignas(64) unsigned char table[4096];
static uint64_t stack;

#define AT(name) ".globl at_" #name "\nat_" #name ":\n\t"

__attribute__((noinline)) static uint64_t turn(uint64_t seed)
{
    uint64_t sum = seed;
    __asm__ volatile(
        "push %%rbp\n\t"
        "sub $256, %%rsp\n\t"
        "mov %%rsp, %[stack]\n\t"
        "lea table(%%rip), %%rdi\n\t"
        "mov $3, %%esi\n\t"
        "lea 128(%%rdi), %%r12\n\t"
        "mov $5, %%r13d\n\t"
        AT(plain) "mov 8(%%rdi), %%rcx\n\t"
        "add %%rcx, %%rax\n\t"
        AT(index) "mov %%rax, 16(%%rdi,%%rsi,8)\n\t"
        AT(absolute) "movl table+4, %%ecx\n\t"
        AT(relative) "mov table+24(%%rip), %%rcx\n\t"
        "add %%rcx, %%rax\n\t"
        AT(short) "movl 64(%%edi,%%esi,4), %%ecx\n\t"
        AT(push) "push %%rax\n\t"
        AT(pop) "pop %%rcx\n\t"
        AT(vector) "movups 32(%%rdi), %%xmm0\n\t"
        AT(vector_store) "movups %%xmm0, 48(%%rdi)\n\t"
        AT(both) "addq $1, 64(%%rdi)\n\t"
        AT(exchange) "lock xadd %%rcx, 72(%%rdi)\n\t"
        AT(high) "mov (%%r12,%%r13,2), %%r11\n\t"
        "add %%r11, %%rax\n\t"
        "lea 256(%%rdi), %%r13\n\t"
        AT(base13) "movzbl (%%r13), %%ecx\n\t"
        AT(base12) "movb %%cl, (%%r12)\n\t"
        AT(on_stack) "mov %%rax, 8(%%rsp)\n\t"
        AT(memory_push) "pushq 80(%%rdi)\n\t"
        "add $8, %%rsp\n\t"
        "mov %%rdi, %%r8\n\t"
        "lea 512(%%rdi), %%rsi\n\t"
        "lea 1024(%%rdi), %%rdi\n\t"
        AT(string) "movsq\n\t"
        "mov $16, %%ecx\n\t"
        AT(repeated) "rep movsb\n\t"
        "mov %%r8, %%rdi\n\t"
        "mov %%rax, %%r9\n\t"
        "xor %%eax, %%eax\n\t"
        "xor %%edx, %%edx\n\t"
        "xor %%ebx, %%ebx\n\t"
        "xor %%ecx, %%ecx\n\t"
        AT(wide) "lock cmpxchg16b 2048(%%rdi)\n\t"
        "lea 3072(%%rdi), %%rbx\n\t"
        "mov $0x1234507, %%eax\n\t"
        AT(table) "xlatb\n\t"
        "movzbl %%al, %%eax\n\t"
        "add %%r9, %%rax\n\t"
        "mov $1000, %%ecx\n\t"
        AT(bits) "bts %%rcx, 2100(%%rdi)\n\t"
        AT(fs) "mov %%fs:0, %%rcx\n\t"
        AT(none) "lea 8(%%rdi,%%rsi), %%rcx\n\t"
        AT(nothing) "nopl 8(%%rdi)\n\t"
        "mov %%rsp, %%rbp\n\t"
        "add $128, %%rbp\n\t"
        AT(leave) "leave\n\t"
        "add $120, %%rsp\n\t"
        "pop %%rbp\n\t"
        : "+a"(sum), [stack] "=m"(stack)
        :
        : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r11", "r12", "r13", "xmm0", "memory", "cc");
    return sum;
}

static void say(const char *name, uint64_t first, uint64_t second)
{
    printf("at_%s %llu %llu\n", name, (unsigned long long)first, (unsigned long long)second);
}

int main(int argc, char **argv)
{
    for (unsigned n = 0; n < sizeof table; n++)
        table[n] = n * 7 + 3;
    uint64_t sum = 1;
    for (uint64_t turns = strtoull(argv[1], 0, 10); turns; turns--)
        sum = turn(sum);
    uint64_t t = (uintptr_t)table;
    printf("%llx\n", (unsigned long long)sum);
    for (unsigned n = 0; n < sizeof table; n++)
        sum = sum * 31 + table[n];
    printf("%llx\n", (unsigned long long)sum);
    say("plain", t + 8, 0);
    say("index", t + 40, 0);
    say("absolute", t + 4, 0);
    say("relative", t + 24, 0);
    say("short", t + 76, 0);
    say("push", stack - 8, 0);
    say("pop", stack - 8, 0);
    say("vector", t + 32, 0);
    say("vector_store", t + 48, 0);
    say("both", t + 64, 0);
    say("exchange", t + 72, 0);
    say("high", t + 138, 0);
    say("base13", t + 256, 0);
    say("base12", t + 128, 0);
    say("on_stack", stack + 8, 0);
    say("memory_push", t + 80, stack - 8);
    say("string", t + 512, t + 1024);
    say("repeated", 0, 0);
    say("wide", t + 2048, 0);
    say("table", 0, 0);
    say("bits", 0, 0);
    say("fs", 0, 0);
    say("none", 0, 0);
    say("nothing", 0, 0);
    say("leave", stack + 128, 0);
    return 0;
}
