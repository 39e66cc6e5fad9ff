// Executes pages of code that a thread of its own fills in when they are needed (userfaultfd), and has calls read such pages.
// argv: seconds, or until SIGTERM
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "until.h"

enum { PAGE = 4096, PAGES = 8 };
static unsigned char *code, page[PAGE] __attribute__((aligned(PAGE)));
static int faults;

static void *server(void *unused) {
    (void)unused;
    struct uffd_msg m;
    while (read(faults, &m, sizeof m) == sizeof m) {
        unsigned long at = m.arg.pagefault.address & -PAGE;
        usleep(500);
        memcpy(page, "\xb8\0\0\0\0\xc3", 6);
        page[1] = (at - (unsigned long)code) / PAGE + 1;
        struct uffdio_copy copy = {.dst = at, .src = (unsigned long)page, .len = PAGE};
        ioctl(faults, UFFDIO_COPY, &copy);
    }
    return 0;
}

int main(int argc, char **argv) {
    work_for(argv[1]);
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    code = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(unsigned long)code, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &all)) {
        puts("good");
        return 0;
    }
    pthread_t thread;
    pthread_create(&thread, 0, server, 0);
    int out = open("/dev/null", O_WRONLY), pipes[2];
    pipe(pipes);
    long bad = 0;
    for (long round = 0; now() < until; round++) {
        madvise(code, PAGES * PAGE, MADV_DONTNEED);
        for (int n = 0; n < PAGES; n++) {
            if (round % 2 || n % 2) {
                char byte;
                bad += write(pipes[1], code + n * PAGE + 1, 1) != 1 || read(pipes[0], &byte, 1) != 1 || byte != n + 1;
            }
            bad += ((int (*)(void))(code + n * PAGE))() != n + 1;
        }
    }
    puts(bad ? "bad" : "good");
    return bad != 0;
}
