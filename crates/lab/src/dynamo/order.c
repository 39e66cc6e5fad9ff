/* Sorting by comparison functions, and searching in what was sorted. */
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 20000 };
struct entry { int key, weight; };
static struct entry entries[COUNT];

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}
static int by_weight(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->weight != y->weight ? (x->weight > y->weight) - (x->weight < y->weight) : by_key(a, b);
}

static void sort(struct entry *list, long n, int (*less)(const void *, const void *))
{
    while (n > 12) {
        struct entry pivot = list[n / 2];
        long i = 0, j = n - 1;
        while (i <= j) {
            while (less(&list[i], &pivot) < 0) i++;
            while (less(&list[j], &pivot) > 0) j--;
            if (i <= j) {
                struct entry t = list[i];
                list[i++] = list[j], list[j--] = t;
            }
        }
        sort(list, j + 1, less);
        list += i, n -= i;
    }
    for (long i = 1; i < n; i++)
        for (long j = i; j > 0 && less(&list[j], &list[j - 1]) < 0; j--) {
            struct entry t = list[j];
            list[j] = list[j - 1], list[j - 1] = t;
        }
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) * 4 : 4, sum = 0;
    unsigned seed = 9;
    for (long r = 0; r < rounds; r++) {
        for (int i = 0; i < COUNT; i++) {
            seed = seed * 1103515245 + 12345;
            entries[i].key = (int)(seed >> 8), entries[i].weight = (int)(seed >> 16 & 63);
        }
        sort(entries, COUNT, r & 1 ? by_weight : by_key);
        for (int i = 0; i < COUNT; i += 7) {
            const struct entry *e = bsearch(&entries[i], entries, COUNT, sizeof *entries, r & 1 ? by_weight : by_key);
            sum += e ? e->key & 15 : -1;
        }
    }
    printf("%ld\n", sum);
    return 0;
}
