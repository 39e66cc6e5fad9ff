// The first thread ends before the others, which go on: with new code, memory, threads and signals, and the last exit status.
// build: -O2 -pthread | -O2 -pthread -static
// run:
// run: exit
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_t first; static int how; static volatile sig_atomic_t got; static void h(int s) { got = s; }
static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static void *last(void *p) { (void)p; pthread_join(first, NULL); usleep(20000);
  char *words[] = { "pear", "fig", "apple", "lime" }; qsort(words, 4, sizeof *words, compare); printf("%s %s\n", words[0], words[3]);
  signal(SIGUSR1, h); raise(SIGUSR1); printf("signal %d\n", got == SIGUSR1); double d = strtod("2.5e3", NULL); printf("%g %s\n", d, setlocale ? "l" : ""); fflush(stdout);
  pthread_t t; pthread_create(&t, NULL, (void *(*)(void *))strdup, "x"); void *v; pthread_join(t, &v); printf("%s\n", (char *)v); fflush(stdout); if (how) exit(7); return NULL; }
int main(int c, char **v) { (void)v; how = c > 1; first = pthread_self(); pthread_t t; pthread_create(&t, NULL, last, NULL); pthread_exit(NULL); }
