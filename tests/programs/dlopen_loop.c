// build: -O2 -ldl
// shared: dlopen_loop_lib.c
// A library is loaded, run and unloaded many times; its code may come back at the same address.
#include <dlfcn.h>
#include <stdio.h>
int main(int c, char **argv) {
  (void)c; char name[4096]; snprintf(name, sizeof name, "%s.so", argv[0]); long s = 0;
  for (int i = 0; i < 60; i++) { void *h = dlopen(name, i & 1 ? RTLD_NOW : RTLD_LAZY); if (!h) { puts("no library"); return 2; }
    int (*f)(int) = (int (*)(int))dlsym(h, "work"); s = s * 7 + f(i); dlclose(h); s &= 0xffffffff; }
  printf("%ld\n", s);
}
