// The kernel is told to forbid the time stamp counter, or cpuid: code that was not executed before goes on, and only the program's own such
// instruction is a fault, in a child, too.
// build: -O2 | -O0 -static
// run: counter
// run: cpuid
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int faults;
static int cpuid;

static void on_fault(int signal)
{
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static long allow(int allowed)
{
    if (cpuid) return syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed);
    return prctl(PR_SET_TSC, allowed ? PR_TSC_ENABLE : PR_TSC_SIGSEGV, 0, 0, 0);
}

static unsigned execute(void)
{
    unsigned a = 0, b, c = 0, d;
    if (cpuid) __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    else __asm__ volatile("rdtsc" : "=a"(a), "=d"(d));
    return a;
}

int main(int argc, char **argv)
{
    int numbers[1000], status;
    unsigned long sum = 0;
    cpuid = argc > 1 && argv[1][1] == 'p';
    signal(SIGSEGV, on_fault);
    if (allow(0) != 0) {
        // The processor cannot.
        puts(cpuid && errno == ENODEV ? "no faults of cpuid" : "refused");
        return 0;
    }
    for (int n = 0; n < 1000; n++) numbers[n] = n * 7919 % 1000;
    qsort(numbers, 1000, sizeof *numbers, compare);
    for (int n = 0; n < 1000; n++) sum += (unsigned long)n * numbers[n];
    if (sigsetjmp(back, 1) == 0) execute();
    // A child inherits it.
    pid_t child = fork();
    if (child == 0) {
        if (sigsetjmp(back, 1) == 0) execute();
        _exit(faults == 2 ? 0 : 1);
    }
    if (waitpid(child, &status, 0) != child || status != 0) return 4;
    if (allow(1) != 0) return 3;
    execute();
    printf("%lu %d\n", sum, faults);
    return 0;
}
