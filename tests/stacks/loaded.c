// The library of paths.cpp: calls what it is given.
static volatile unsigned long sink;
void loaded(void (*call)(long), long n) { call(n); sink++; }
