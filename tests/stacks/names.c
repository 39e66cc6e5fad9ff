// Code generated at run time, which tells its names as engines do: `map` writes /tmp/perf-PID.map, `dump` writes jit-PID.dump and maps it to be
// executed. Both are deleted at the end, so they can only be read meanwhile.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// push rbp; mov rbp, rsp; 1: dec rdi; jnz 1b; pop rbp; ret
static const unsigned char CODE[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};

static void put(FILE *to, unsigned long value, int bytes) { fwrite(&value, bytes, 1, to); }

static void load(FILE *to, unsigned long at, unsigned long index, const char *name) {
    put(to, 0, 4);
    put(to, 16 + 40 + strlen(name) + 1 + sizeof CODE, 4);
    put(to, 1, 8);
    put(to, getpid() | (unsigned long)getpid() << 32, 8);
    put(to, at, 8);
    put(to, at, 8);
    put(to, sizeof CODE, 8);
    put(to, index, 8);
    fwrite(name, strlen(name) + 1, 1, to);
    fwrite(CODE, sizeof CODE, 1, to);
}

int main(int argc, char **argv) {
    int is_dump = argc > 1 && strcmp(argv[1], "dump") == 0;
    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *first = memory, *second = memory + 64;
    memcpy(first, CODE, sizeof CODE);
    memcpy(second, CODE, sizeof CODE);
    char path[64];
    snprintf(path, sizeof path, is_dump ? "jit-%d.dump" : "/tmp/perf-%d.map", getpid());
    FILE *to = fopen(path, "w+");
    if (!to) return 1;
    if (is_dump) {
        unsigned long head[] = {0x4a695444 | 1ul << 32, 40 | 62ul << 32, (unsigned long)getpid() << 32, 0, 0};
        fwrite(head, sizeof head, 1, to);
        load(to, (unsigned long)first, 1, "made_first");
        load(to, (unsigned long)second, 2, "JS:*second /a b.js:2");
        fflush(to);
        mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(to), 0);
    } else {
        fprintf(to, "%lx %zx made_first\n%lx %zx JS:*second /a b.js:2\n", (unsigned long)first, sizeof CODE, (unsigned long)second, sizeof CODE);
        fflush(to);
    }
    // Turns of different lengths: equal ones would keep step with the clock that samples.
    unsigned long random = 1;
    for (int n = 0; n < 400; n++) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        long turn = 200000 + (random >> 33) % 1000000;
        ((void (*)(long))first)(3 * turn);
        ((void (*)(long))second)(turn);
    }
    fclose(to);
    unlink(path);
    return 0;
}
