// More short threads than a process has at a time (4096): a few at a time, joined and detached, and some hundreds at once.
// build: -O2 -pthread | -O2 -static -pthread
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
static atomic_long sum; static sem_t gone;
static void *add(void *p) { atomic_fetch_add(&sum, (long)p); return (void *)((long)p * 3); }
static void *detached(void *p) { atomic_fetch_add(&sum, (long)p); sem_post(&gone); return NULL; }
static pthread_barrier_t bar;
static void *meet(void *p) { pthread_barrier_wait(&bar); return add(p); }
int main(void) {
  long back = 0; sem_init(&gone, 0, 0);
  for (int r = 0; r < 900; r++) { pthread_t t[4]; for (long i = 0; i < 4; i++) if (pthread_create(&t[i], NULL, add, (void *)(i + r))) return 2;
    for (int i = 0; i < 4; i++) { void *v; pthread_join(t[i], &v); back += (long)v; } }
  printf("%ld %ld\n", sum, back);
  pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED); pthread_attr_setstacksize(&a, 65536);
  for (long i = 0; i < 600; i++) { pthread_t t; if (pthread_create(&t, &a, detached, (void *)i)) return 3; if (i % 50 == 49) for (int k = 0; k < 50; k++) sem_wait(&gone); }
  printf("%ld\n", sum);
  enum { N = 300 }; static pthread_t t[N]; pthread_barrier_init(&bar, NULL, N); pthread_attr_setdetachstate(&a, PTHREAD_CREATE_JOINABLE);
  for (long i = 0; i < N; i++) if (pthread_create(&t[i], &a, meet, (void *)i)) return 4;
  for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
  printf("%ld\n", sum);
}
