// The kernel is told to forbid cpuid: code that was not executed before goes on, and only the program's own cpuid is a fault.
// build: -O2 | -O0 -static
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int faults;

static void on_fault(int signal)
{
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static unsigned identify(void)
{
    unsigned a = 0, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return a;
}

int main(void)
{
    int numbers[1000];
    unsigned long sum = 0;
    signal(SIGSEGV, on_fault);
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) != 0) {
        // The processor cannot.
        puts(errno == ENODEV ? "no faults of cpuid" : "refused");
        return 0;
    }
    for (int n = 0; n < 1000; n++) numbers[n] = n * 7919 % 1000;
    qsort(numbers, 1000, sizeof *numbers, compare);
    for (int n = 0; n < 1000; n++) sum += (unsigned long)n * numbers[n];
    if (sigsetjmp(back, 1) == 0) identify();
    // A child inherits it.
    pid_t child = fork();
    if (child == 0) {
        if (sigsetjmp(back, 1) == 0) identify();
        _exit(faults == 2 ? 0 : 1);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 4;
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1) != 0) return 3;
    identify();
    printf("%lu %d\n", sum, faults);
    return 0;
}
