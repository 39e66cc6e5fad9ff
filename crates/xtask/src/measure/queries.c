// Stores of references into a table by one function: as many as the argument says, and as many turns of a loop.
#include <stdio.h>
#include <stdlib.h>
static void *table[64];
__attribute__((noinline)) void store_reference(void **to, void *what) { *to = what; }
__attribute__((noinline)) void never(void **to) { *to = 0; }
int main(int argc, char **argv) {
  unsigned long n = argc > 1 ? strtoul(argv[1], 0, 10) : 1000000, x = 1;
  if (n == 0) never(table);
  for (unsigned long i = 0; i < n; i++) {
    x = x * 6364136223846793005ul + 1442695040888963407ul;
    store_reference(&table[x >> 58], table + (x >> 48 & 15));
  }
  printf("%p\n", table[7] ? (void *)1 : (void *)2);
  return 0;
}
