/* Runs the code of files, each in a child, until it halts or another signal comes, and prints the state of the processor then:
 * fex DIR NAME... runs DIR/NAME.bin, with the memory that DIR/NAME.memory says: lines of `ADDRESS SIZE`, or `ADDRESS: BYTES`, in hexadecimal.
 *
 * Code, its memory and the registers at its start are where FEX's own runner has them: code at 0x10000, all registers 0
 * but for rdi, which is the address of the code. There is no stack. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, CODE = 0x10000, LIMIT = 20, YMM = 576 };

/* What is mapped, to print what it holds. */
static struct { uint64_t at, size; } regions[32];
static int known;
static unsigned long thread_base;
/* Words that the code has written may be anywhere in these. Large ones are not looked through. */
enum { LOOKED_AT = 1 << 20 };

static void map(uint64_t at, uint64_t size)
{
    size = (size + PAGE - 1) & -PAGE;
    void *where = mmap((void *)at, size, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (where == MAP_FAILED || known == 32) {
        perror("mmap");
        exit(1);
    }
    regions[known].at = at;
    regions[known++].size = size;
}

static FILE *opened(const char *dir, const char *name, const char *kind)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s", dir, name, kind);
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

static void load(const char *dir, const char *name)
{
    map(0xe0000000, 10 * PAGE);
    map(0xe8000000 - PAGE, 2 * PAGE);
    FILE *code = opened(dir, name, "bin");
    fseek(code, 0, SEEK_END);
    size_t size = ftell(code);
    rewind(code);
    map(CODE, size);
    if (fread((void *)CODE, 1, size, code) != size)
        exit(1);
    fclose(code);
    FILE *memory = opened(dir, name, "memory");
    unsigned long at, length;
    char colon;
    while (fscanf(memory, "%lx%c", &at, &colon) == 2) {
        if (colon != ':') {
            if (fscanf(memory, "%lx", &length) == 1)
                map(at, length);
            continue;
        }
        unsigned byte;
        while (fscanf(memory, "%*[ ]%2x", &byte) == 1)
            *(unsigned char *)at++ = byte;
    }
    fclose(memory);
}

static void print_memory(void)
{
    for (int i = 0; i < known; i++) {
        if (regions[i].size > LOOKED_AT)
            continue;
        uint64_t sum = 14695981039346656037u;
        unsigned char *byte = (unsigned char *)regions[i].at;
        for (uint64_t n = 0; n < regions[i].size; n++)
            sum = (sum ^ byte[n]) * 1099511628211u;
        printf("memory at %lx: %016lx\n", regions[i].at, sum);
    }
}

static void print_registers(mcontext_t *m)
{
    static const struct { const char *name; int at; } names[] = {
        {"RIP", REG_RIP}, {"RAX", REG_RAX}, {"RBX", REG_RBX}, {"RCX", REG_RCX}, {"RDX", REG_RDX},
        {"RSI", REG_RSI}, {"RDI", REG_RDI}, {"RBP", REG_RBP}, {"RSP", REG_RSP}, {"R8", REG_R8},
        {"R9", REG_R9}, {"R10", REG_R10}, {"R11", REG_R11}, {"R12", REG_R12}, {"R13", REG_R13},
        {"R14", REG_R14}, {"R15", REG_R15}, {"flags", REG_EFL},
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        printf("%s %llx\n", names[i].name, m->gregs[names[i].at]);
    const unsigned char *area = (void *)m->fpregs;
    for (int i = 0; i < 16; i++) {
        uint64_t low[2], high[2];
        memcpy(low, &m->fpregs->_xmm[i], 16);
        memcpy(high, area + YMM + 16 * i, 16);
        printf("XMM%d %lx %lx %lx %lx\n", i, low[0], low[1], high[0], high[1]);
    }
    unsigned top = m->fpregs->swd >> 11 & 7;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t st[2] = {0};
        memcpy(st, &m->fpregs->_st[(i - top) & 7], 10);
        printf("MM%u %lx %lx\n", i, st[0], st[1]);
    }
    printf("x87 control %x status %x tags %x opcode %x at %lx operand %lx\nmxcsr %x\n", m->fpregs->cwd, m->fpregs->swd,
           m->fpregs->ftw, m->fpregs->fop, m->fpregs->rip, m->fpregs->rdp, m->fpregs->mxcsr);
}

/* Without a stack protector: the code may have changed the base of FS. */
__attribute__((optimize("no-stack-protector"))) static void ended(int signal, siginfo_t *info, void *context)
{
    long done;
    __asm__ volatile("cld; ldmxcsr %4; fninit; syscall"
                     : "=a"(done)
                     : "0"(SYS_arch_prctl), "D"(ARCH_SET_FS), "S"(thread_base), "m"((unsigned){0x1f80})
                     : "rcx", "r11", "memory");
    ucontext_t *u = context;
    const unsigned char *at = (void *)u->uc_mcontext.gregs[REG_RIP];
    if (signal == SIGSEGV && info->si_code == SI_KERNEL && *at == 0xf4)
        printf("halted\n");
    else
        printf("signal %d, code %d, at %lx\n", signal, info->si_code, (unsigned long)info->si_addr);
    print_registers(&u->uc_mcontext);
    print_memory();
    fflush(stdout);
    _exit(0);
}

static void run(void)
{
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_sigaction = ended, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (int i = 0; i < 5; i++)
        sigaction(signals[i], &action, NULL);
    syscall(SYS_arch_prctl, ARCH_GET_FS, &thread_base);
    alarm(LIMIT);
    __asm__ volatile("vzeroall; fninit; ldmxcsr %0; pushq $0x202; popfq\n"
                     "mov %1, %%edi\n mov $0, %%eax\n mov $0, %%ebx\n mov $0, %%ecx\n mov $0, %%edx\n mov $0, %%esi\n"
                     "mov $0, %%ebp\n mov $0, %%r8d\n mov $0, %%r9d\n mov $0, %%r10d\n mov $0, %%r11d\n mov $0, %%r12d\n"
                     "mov $0, %%r13d\n mov $0, %%r14d\n mov $0, %%r15d\n mov $0, %%esp\n jmp *%%rdi"
                     : : "m"((unsigned){0x1f80}), "i"(CODE) : "memory");
}

int main(int argc, char **argv)
{
    if (argc < 3 || !__builtin_cpu_supports("avx"))
        return 2;
    for (int i = 2; i < argc; i++) {
        printf("== %s\n", argv[i]);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            load(argv[1], argv[i]);
            run();
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
        if (status)
            printf("status %x\n", status);
    }
    return 0;
}
