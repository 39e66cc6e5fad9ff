// Rings by which the kernel writes to memory when it likes: asynchronous input, and io_uring where that is allowed. Both read code into a
// page that was executed just before.
// argv: seconds, or until SIGTERM; with more, a thread of the kernel's reads, which is listed among the process's
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "until.h"

enum { CODE = 6 };
static char *code;
static int file, ends[2], ring = -1, workers;
static aio_context_t context;
static char *requests, *answers;
static struct io_uring_sqe *entries;
static struct io_uring_params ring_is;

static long by_aio(void) {
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = file, .aio_buf = (uint64_t)code, .aio_nbytes = CODE}, *all = &one;
    struct io_event event = {.res = -1};
    if (syscall(SYS_io_submit, context, 1, &all) != 1) return -1;
    while (syscall(SYS_io_getevents, context, 1, 1, &event, 0) != 1);
    return event.res;
}

static void make_ring(void) {
    ring = syscall(SYS_io_uring_setup, 8, &ring_is);
    if (ring < 0) return;
    int prot = PROT_READ | PROT_WRITE;
    requests = mmap(0, ring_is.sq_off.array + ring_is.sq_entries * 4, prot, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    answers = mmap(0, ring_is.cq_off.cqes + ring_is.cq_entries * sizeof(struct io_uring_cqe), prot, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    entries = mmap(0, ring_is.sq_entries * sizeof *entries, prot, MAP_SHARED, ring, IORING_OFF_SQES);
}

static unsigned *word(char *in, unsigned at) { return (unsigned *)(in + at); }

static long by_ring(const char *bytes) {
    write(ends[1], bytes, CODE);
    unsigned tail = *word(requests, ring_is.sq_off.tail), slot = tail & *word(requests, ring_is.sq_off.ring_mask);
    entries[slot] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = ends[0], .addr = (uint64_t)code, .len = CODE, .off = -1, .flags = workers ? IOSQE_ASYNC : 0};
    word(requests, ring_is.sq_off.array)[slot] = slot;
    __atomic_store_n(word(requests, ring_is.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
    unsigned head = *word(answers, ring_is.cq_off.head);
    while (__atomic_load_n(word(answers, ring_is.cq_off.tail), __ATOMIC_ACQUIRE) == head)
        syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0);
    struct io_uring_cqe *done = (struct io_uring_cqe *)(answers + ring_is.cq_off.cqes);
    long result = done[head & *word(answers, ring_is.cq_off.ring_mask)].res;
    __atomic_store_n(word(answers, ring_is.cq_off.head), head + 1, __ATOMIC_RELEASE);
    return result;
}

int main(int argc, char **argv) {
    work_for(argv[1]);
    workers = argc > 2;
    file = memfd_create("code", 0);
    code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    syscall(SYS_io_setup, 4, &context);
    make_ring();
    pipe(ends);
    long bad = 0, wrong = 0;
    for (int n = 0; now() < until; n = (n + 1) % 100) {
        char bytes[CODE] = {0xb8, n, 0, 0, 0, 0xc3};
        pwrite(file, bytes, CODE, 0);
        long read = n % 2 && ring >= 0 ? by_ring(bytes) : by_aio();
        if (read != CODE) bad++;
        for (int i = 0; i < 200; i++)
            if (((int (*)(void))code)() != n) wrong++;
        nanosleep(&(struct timespec){0, 100000}, 0);
    }
    if (bad || wrong) printf("%ld reads failed, %ld calls of old code\n", bad, wrong);
    puts(bad || wrong ? "bad" : "good");
    return bad || wrong;
}
