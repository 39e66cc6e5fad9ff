// A function that is called from 64 places with a cell of its own each; from two of them most of the time. ./places TURNS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ALONE __attribute__((noipa))

typedef volatile uint64_t Cell;

static Cell cells[64];

ALONE uint64_t load(Cell *p) { return *p; }

// What is in the comment keeps compilers from making one call of all.
#define CALL(n)                               \
  case n:                                     \
    loaded = load(&cells[n]);                 \
    __asm__ volatile("# %c0" : : "i"(n));     \
    break;
#define CALLS(n) CALL(n) CALL(n + 1) CALL(n + 2) CALL(n + 3) CALL(n + 4) CALL(n + 5) CALL(n + 6) CALL(n + 7)

ALONE uint64_t one(unsigned n) {
  uint64_t loaded = 0;
  switch (n) {
    CALLS(0) CALLS(8) CALLS(16) CALLS(24) CALLS(32) CALLS(40) CALLS(48) CALLS(56)
  }
  return loaded;
}

int main(int argc, char **argv) {
  uint64_t turns = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  uint64_t sum = 0, random = 1;
  for (unsigned n = 0; n < 64; n++) cells[n] = 1000 + n;
  for (uint64_t turn = 0; turn < turns; turn++) {
    random = random * 6364136223846793005 + 1442695040888963407;
    unsigned choice = random >> 60;
    // Of sixteen turns six are of one, six of another, and four of any.
    unsigned n = choice < 6 ? 17 : choice < 12 ? 42 : random >> 40 & 63;
    sum += one(n);
  }
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
