// Threads that make code anew at the same place, each in its own way, and call it some thousand times before the next change.
// argv: seconds, or until SIGTERM; with a second word, code of private mappings of files, too.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "until.h"

enum { FUNCTIONS = 8, APART = 128, SIZE = 8192 };
static volatile int bad;

// `mov eax, n; add eax, i; ret` for each function, across two pages.
static void write_code(unsigned char *to, unsigned n) {
    for (int i = 0; i < FUNCTIONS; i++) {
        unsigned char *f = to + 4096 - FUNCTIONS / 2 * APART + i * APART;
        f[0] = 0xb8;
        memcpy(f + 1, &n, 4);
        memcpy(f + 5, (unsigned char[]){0x83, 0xc0, i, 0xc3}, 4);
    }
}

static void call_all(unsigned char *code, unsigned n, unsigned times, const char *way) {
    for (unsigned t = 0; t < times; t++)
        for (int i = 0; i < FUNCTIONS; i++) {
            unsigned (*f)(void) = (void *)(code + 4096 - FUNCTIONS / 2 * APART + i * APART);
            if (f() != n + i && !bad) {
                bad = 1;
                printf("code of before: %s\n", way);
                fflush(stdout);
            }
        }
}

static unsigned draw(unsigned *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static void *map(void *at, int protection, int flags, int file) {
    return mmap(at, SIZE, protection, flags | (at ? MAP_FIXED : 0), file, 0);
}

static int file_with(unsigned n) {
    static unsigned char zeroes[SIZE];
    unsigned char bytes[SIZE];
    memcpy(bytes, zeroes, SIZE);
    write_code(bytes, n);
    int file = memfd_create("code", 0);
    if (write(file, bytes, SIZE) != SIZE) abort();
    return file;
}

enum { RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC, RWX = RW | RX, ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS };

static void *writable(void *unused) {
    unsigned state = 1, n = 0;
    unsigned char *code = map(0, RWX, ANONYMOUS, -1);
    while (now() < until) {
        write_code(code, ++n);
        call_all(code, n, draw(&state) % 3000, "writable");
    }
    return unused;
}

static void *protected(void *unused) {
    unsigned state = 2, n = 0;
    unsigned char *code = map(0, RW, ANONYMOUS, -1);
    while (now() < until) {
        mprotect(code, SIZE, RW);
        write_code(code, ++n);
        mprotect(code, SIZE, RX);
        call_all(code, n, draw(&state) % 3000, "protected");
    }
    return unused;
}

static void *unmapped(void *unused) {
    unsigned state = 3, n = 0;
    unsigned char *code = map(0, RWX, ANONYMOUS, -1);
    while (now() < until) {
        // The same code half of the time, from another mapping.
        n += draw(&state) & 1;
        code = map(code, draw(&state) & 1 ? RWX : RW, ANONYMOUS, -1);
        write_code(code, n);
        mprotect(code, SIZE, RX);
        call_all(code, n, draw(&state) % 3000, "unmapped");
    }
    return unused;
}

static void *twice(void *unused) {
    unsigned state = 4, n = 0;
    int file = file_with(0);
    unsigned char *data = map(0, RW, MAP_SHARED, file), *code = map(0, RX, MAP_SHARED, file);
    while (now() < until) {
        write_code(data, ++n);
        call_all(code, n, draw(&state) % 3000, "mapped twice");
    }
    return unused;
}

static void *files(void *unused) {
    unsigned state = 5, n;
    int file[3] = {file_with(100), file_with(200), file_with(300)};
    unsigned char *code = map(0, RX, MAP_PRIVATE, file[0]);
    while (now() < until) {
        n = draw(&state) % 4;
        if (n < 3) {
            code = map(code, RX, MAP_PRIVATE, file[n]);
        } else {
            code = map(code, RW, ANONYMOUS, -1);
            write_code(code, 400);
            mprotect(code, SIZE, RX);
        }
        call_all(code, 100 * (n + 1), draw(&state) % 3000, "files");
    }
    return unused;
}

static void *copied(void *unused) {
    unsigned state = 6, n = 0;
    int file = file_with(0);
    unsigned char *code = map(0, RX, MAP_PRIVATE, file);
    while (now() < until) {
        // The pages become the program's own, and the file's again.
        if (draw(&state) % 4) {
            mprotect(code, SIZE, RW);
            write_code(code, ++n);
            mprotect(code, SIZE, RX);
        } else {
            madvise(code, SIZE, MADV_DONTNEED);
            n = 0;
        }
        call_all(code, n, draw(&state) % 3000, "copied");
    }
    return unused;
}

int main(int argc, char **argv) {
    work_for(argc > 1 ? argv[1] : 0);
    void *(*ways[])(void *) = {writable, protected, unmapped, twice, files, copied};
    int all = argc > 2 ? 6 : 4;
    pthread_t threads[6];
    for (int i = 0; i < all; i++) pthread_create(threads + i, 0, ways[i], 0);
    for (int i = 0; i < all; i++) pthread_join(threads[i], 0);
    puts(bad ? "bad" : "good");
    return bad;
}
