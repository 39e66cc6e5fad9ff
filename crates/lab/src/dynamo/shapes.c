/* Objects with tables of functions, in lists: indirect calls that mostly repeat. */
#include <stdio.h>
#include <stdlib.h>

struct shape;
struct kind {
    long (*area)(const struct shape *);
    void (*grow)(struct shape *, int);
};
struct shape {
    const struct kind *kind;
    struct shape *next;
    int a, b;
};

static long box_area(const struct shape *s) { return (long)s->a * s->b; }
static void box_grow(struct shape *s, int by) { s->a = (s->a + by) & 255; s->b ^= by; }
static long disc_area(const struct shape *s) { return (long)s->a * s->a * 355 / 113; }
static void disc_grow(struct shape *s, int by) { s->a = (s->a * 3 + by) & 127; }
static long line_area(const struct shape *s) { return s->b & 1; }
static void line_grow(struct shape *s, int by) { s->b += by; }

static const struct kind kinds[] = { { box_area, box_grow }, { disc_area, disc_grow }, { line_area, line_grow } };

static long total(const struct shape *list)
{
    long sum = 0;
    for (; list; list = list->next) sum += list->kind->area(list);
    return sum;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) * 2000 : 2000, sum = 0;
    struct shape *list = 0;
    for (int i = 0; i < 600; i++) {
        struct shape *s = malloc(sizeof *s);
        s->kind = &kinds[i < 400 ? 0 : i < 560 ? 1 : 2];
        s->a = i, s->b = i * 7, s->next = list, list = s;
    }
    for (long r = 0; r < rounds; r++) {
        for (struct shape *s = list; s; s = s->next) s->kind->grow(s, (int)(r & 15));
        sum += total(list);
    }
    printf("%ld\n", sum);
    return 0;
}
