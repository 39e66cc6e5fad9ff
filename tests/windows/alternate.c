// Loaded into a program in front of it: gives its first thread an alternate stack, so that signals leave what is below its stack
// pointer alone.
#include <signal.h>

static char stack[1 << 16];

__attribute__((constructor)) static void give(void)
{
    stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
    sigaltstack(&alternate, 0);
}
