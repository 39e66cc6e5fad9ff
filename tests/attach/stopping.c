// A program that stops itself again and again, for as long as its parent has it go on. argv: seconds, or until SIGTERM.
#include <signal.h>
#include <stdio.h>
#include "until.h"

int main(int argc, char **argv) {
    unsigned long x = 1;
    long stops = 0;
    if (argc < 2) return 2;
    work_for(argv[1]);
    while (now() < until) {
        for (int i = 0; i < 20000; i++) x = x * 6364136223846793005ul + (i & 3 ? 1 : 3);
        raise(SIGSTOP);
        stops++;
    }
    printf("%ld\n", stops);
    return x == 0;
}
