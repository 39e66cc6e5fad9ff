// library of dlopen_loop.c
static int calls;
__attribute__((constructor)) static void up(void) { calls = 100; }
int work(int n) { int s = calls++; for (int i = 0; i < n; i++) s = s * 3 + i; return s & 0xffff; }
