// Threads load, call and drop a library again and again while others run code of libc and of the program.
// build: -O2 -pthread -ldl
// shared: dlopen_loop_lib.c
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char lib[4096]; static atomic_int stop; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void *sorter(void *p) { long n = 0; int v[64]; while (!stop) { for (int i = 0; i < 64; i++) v[i] = (i * 37 + n) % 101; qsort(v, 64, sizeof *v, compare); for (int i = 1; i < 64; i++) if (v[i - 1] > v[i]) abort(); n++; } return NULL; }
static void *loader(void *p) { long sum = 0; for (int r = 0; r < 40; r++) { void *h = dlopen(lib, RTLD_NOW | RTLD_LOCAL); if (!h) { puts(dlerror()); abort(); }
    int (*f)(int) = dlsym(h, "work"); if (!f) { puts("no symbol"); abort(); } sum += f(r) != 0; dlclose(h); void *x = malloc(1000 + r); memset(x, r, 1000); free(x); } return (void *)sum; }
int main(int argc, char **argv) {
  snprintf(lib, sizeof lib, "%s.so", argv[0]);
  pthread_t s[2], l[2]; for (int i = 0; i < 2; i++) pthread_create(&s[i], NULL, sorter, NULL);
  for (int i = 0; i < 2; i++) pthread_create(&l[i], NULL, loader, NULL);
  long done = 0; for (int i = 0; i < 2; i++) { void *v; pthread_join(l[i], &v); done += v != NULL; }
  stop = 1; for (int i = 0; i < 2; i++) pthread_join(s[i], NULL);
  printf("loaded and dropped by %ld threads\n", done);
}
