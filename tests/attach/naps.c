// A program with generated code, whose calls are all looked at. It sleeps for some microseconds again and again, in a call that the kernel
// would continue by itself (`restart_syscall`).
// argv: seconds, or until SIGTERM.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "until.h"

int main(int argc, char **argv) {
    work_for(argc > 1 ? argv[1] : 0);
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, "\xb8\0\0\0\0\xc3", 6);
    while (now() < until) {
        ((int (*)(void))code)();
        for (volatile int i = 0; i < 3000; i++);
        nanosleep(&(struct timespec){0, 50000}, 0);
    }
    puts("good");
    return 0;
}
