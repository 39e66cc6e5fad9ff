// build: -O2 -pthread | -O2 -static -pthread
// Threads with mutexes, condition variables, TLS, atomics and thread exit values.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t cv = PTHREAD_COND_INITIALIZER; static long total; static _Thread_local long mine; static atomic_long at; static int turn;
static void *work(void *p) { long id = (long)p; for (int i = 0; i < 20000; i++) { mine += i ^ id; atomic_fetch_add(&at, id); if (i % 100 == 0) { pthread_mutex_lock(&m); total += i; pthread_mutex_unlock(&m); } }
  pthread_mutex_lock(&m); while (turn != id) pthread_cond_wait(&cv, &m); printf("thread %ld %ld\n", id, mine); turn++; pthread_cond_broadcast(&cv); pthread_mutex_unlock(&m); return (void *)(mine & 0xffff); }
int main(void) { for (int r = 0; r < 3; r++) { pthread_t t[6]; turn = 0; for (long i = 0; i < 6; i++) pthread_create(&t[i], NULL, work, (void *)i); void *v[6]; for (int i = 0; i < 6; i++) pthread_join(t[i], &v[i]); for (int i = 0; i < 6; i++) printf("%ld ", (long)v[i]); printf("\n%ld %ld\n", total, at); } }
