// Has little less memory than a limit allows, maps some again and again, and is refused none that it may have.
// argv: seconds, or until SIGTERM; what is limited: data, or else the address space
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "until.h"

enum { PAGE = 4096, SPARE = 40 * PAGE };

int main(int argc, char **argv) {
    work_for(argv[1]);
    int data = argc > 2 && !strcmp(argv[2], "data"), what = data ? RLIMIT_DATA : RLIMIT_AS;
    char status[4096] = "";
    int file = open("/proc/self/status", O_RDONLY);
    read(file, status, sizeof status - 1);
    close(file);
    struct rlimit limit;
    getrlimit(what, &limit);
    limit.rlim_cur = atol(strstr(status, data ? "VmData:" : "VmSize:") + 7) * 1024 + SPARE;
    setrlimit(what, &limit);
    long refused = 0;
    while (now() < until) {
        char *memory = mmap(0, SPARE / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        refused += memory == MAP_FAILED;
        if (memory != MAP_FAILED) munmap(memory, SPARE / 2);
        nanosleep(&(struct timespec){0, 20000}, 0);
    }
    if (refused) printf("refused %ld times\n", refused);
    puts(refused ? "bad" : "good");
    return refused != 0;
}
