// The kernel is told to forbid the time stamp counter: code that was not executed before goes on, and only the program's own rdtsc is a fault.
// build: -O2 | -O0 -static
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static sigjmp_buf back;
static volatile int faults;

static void on_fault(int signal)
{
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static unsigned stamp(void)
{
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return low | high;
}

int main(void)
{
    int numbers[1000];
    unsigned long sum = 0;
    signal(SIGSEGV, on_fault);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 2;
    for (int n = 0; n < 1000; n++) numbers[n] = n * 7919 % 1000;
    qsort(numbers, 1000, sizeof *numbers, compare);
    for (int n = 0; n < 1000; n++) sum += (unsigned long)n * numbers[n];
    if (sigsetjmp(back, 1) == 0) stamp();
    if (prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) != 0) return 3;
    stamp();
    printf("%lu %d\n", sum, faults);
    return 0;
}
