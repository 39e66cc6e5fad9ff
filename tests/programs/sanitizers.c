// Programs that check their own memory map, or reserve much of it, at their start: sanitizers, and code at unusual addresses.
// build: -O1 -fsanitize=thread -pthread | -O1 -fsanitize=thread -static-libtsan -pthread | -O1 -fsanitize=address -pthread | -O1 -fsanitize=address -no-pie -pthread | -O1 -pthread -no-pie -Wl,-Ttext-segment=0x10000 | -O1 -pthread -no-pie -Wl,-Ttext-segment=0x10000000 | -O1 -pthread -no-pie -Wl,-Ttext-segment=0x6c000000
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int n; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *add(void *x) { for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&m); n++; pthread_mutex_unlock(&m); char *p = malloc(i + 1); memset(p, i, i + 1); free(p); } return 0; }
int main(void) {
  pthread_t t[3]; for (int i = 0; i < 3; i++) pthread_create(t + i, 0, add, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  printf("%d\n", n); fflush(stdout); pid_t p = fork(); if (!p) { add(0); _exit(n == 4000); } int s; waitpid(p, &s, 0); printf("child %x\n", s); return 3;
}
