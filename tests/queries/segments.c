/* Loads relative to FS, whose base a system call changes, and an instruction where the kernel has enabled it. Prints where each load was,
 * and what it has loaded. */
#include <asm/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

uint64_t load_relative(void);
__asm__(".text\n"
        ".globl load_relative\n"
        ".type load_relative, @function\n"
        "load_relative:\n"
        "    mov %fs:8, %rax\n"
        "    ret\n"
        ".size load_relative, . - load_relative\n");

static uint64_t areas[2][2] = {{0, 1111}, {0, 2222}};

/* Nothing that wants the thread's own base may be called behind it. */
static void set_by_call(uint64_t base)
{
    long number = SYS_arch_prctl;
    __asm__ volatile("syscall" : "+a"(number) : "D"((long)ARCH_SET_FS), "S"(base) : "rcx", "r11", "memory");
}

static void set_by_instruction(uint64_t base)
{
    __asm__ volatile("wrfsbase %0" : : "r"(base) : "memory");
}

int main(void)
{
    uint64_t own, at[4], loaded[4];
    int n = 0, k;
    __asm__("mov %%fs:0, %0" : "=r"(own));
    at[n] = own;
    loaded[n++] = load_relative();
    at[n] = (uint64_t)areas[0];
    set_by_call(at[n]);
    loaded[n++] = load_relative();
    set_by_call(own);
    if (getauxval(AT_HWCAP2) & 2) {
        at[n] = (uint64_t)areas[1];
        set_by_instruction(at[n]);
        loaded[n++] = load_relative();
        set_by_instruction(own);
    }
    at[n] = own;
    loaded[n++] = load_relative();
    for (k = 0; k < n; k++) printf("%lu %lu\n", (unsigned long)loaded[k], (unsigned long)at[k] + 8);
    return 0;
}
