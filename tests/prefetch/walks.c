// Walks over memory that a processor does not see coming, and some that it does.
//
//   walks [KIND [TIMES]]
//
// list    a linked list whose records were allocated one behind the other, more than a page each
// array   an array of pointers to such records, each of which leads to a leaf that lies elsewhere, whose value is mixed
// chase   indices that lead through a table at random
// dense   one number behind the other
//
// Without arguments all of them, one after the other. Prints a sum for each, which depends on every load.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RECORDS = 50000, TABLE = 1 << 21 };

struct leaf {
    long value;
    char rest[2 * 1024 + 512 - sizeof(long)];
};

struct record {
    struct record *next;
    struct leaf *leaf;
    long key;
    char text[4096 + 64 - 3 * sizeof(long)];
};

static struct record *records[RECORDS];
static unsigned *table;

static void *memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    // As where there are no large pages.
    madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

static void make(void)
{
    struct record *all = memory(RECORDS * sizeof *all);
    struct leaf *leaves = memory(RECORDS * sizeof *leaves);
    for (long i = 0; i < RECORDS; i++) {
        records[i] = &all[i];
        all[i].next = i + 1 < RECORDS ? &all[i + 1] : NULL;
        all[i].leaf = &leaves[i];
        all[i].key = i * 7 % 1001;
        leaves[i].value = i * 13 % 997;
    }
    table = memory(TABLE * sizeof *table);
    for (unsigned i = 0; i < TABLE; i++)
        table[i] = i;
    // Sattolo: one cycle through all of them.
    unsigned long random = 42;
    for (unsigned i = TABLE - 1; i > 0; i--) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        unsigned j = (random >> 33) % i, was = table[i];
        table[i] = table[j];
        table[j] = was;
    }
}

__attribute__((noinline)) static long list(void)
{
    long sum = 0;
    for (const struct record *r = records[0]; r; r = r->next)
        sum += r->key;
    return sum;
}

// As a hash function does: enough instructions that a processor does not look past a few records.
static unsigned long mixed(unsigned long x)
{
    for (int i = 0; i < 24; i++) {
        x ^= x >> 29;
        x *= 0xbf58476d1ce4e5b9;
    }
    return x;
}

__attribute__((noinline)) static long array(void)
{
    unsigned long sum = 0;
    for (long i = 0; i < RECORDS; i++)
        sum += mixed(records[i]->leaf->value);
    return sum;
}

__attribute__((noinline)) static long chase(void)
{
    unsigned at = 0;
    long sum = 0;
    for (long i = 0; i < RECORDS; i++) {
        at = table[at];
        sum += at;
    }
    return sum;
}

__attribute__((noinline)) static long dense(void)
{
    long sum = 0;
    for (long i = 0; i < TABLE; i++)
        sum += table[i] ^ i;
    return sum;
}

static const struct {
    const char *name;
    long (*walk)(void);
    long times;
} walks[] = {
    {"list", list, 300},
    {"array", array, 300},
    {"chase", chase, 200},
    {"dense", dense, 60},
};

int main(int argc, char **argv)
{
    make();
    for (size_t n = 0; n < sizeof walks / sizeof *walks; n++) {
        if (argc > 1 && strcmp(argv[1], walks[n].name) != 0)
            continue;
        long times = argc > 2 ? atol(argv[2]) : walks[n].times;
        unsigned long sum = 0;
        for (long i = 0; i < times; i++)
            sum = sum * 31 + walks[n].walk();
        printf("%s %lx\n", walks[n].name, sum);
    }
    return 0;
}
