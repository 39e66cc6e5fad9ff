// pthread_cancel of threads that compute, sleep, wait for a condition, read a pipe or are asynchronous, with clean-up handlers and keys.
// build: -O2 -pthread | -O0 -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t cv = PTHREAD_COND_INITIALIZER; static int pipes[2]; static atomic_int cleaned, destroyed, started; static pthread_key_t key;
static void clean(void *p) { cleaned += (int)(long)p; } static void destroy(void *p) { destroyed += (int)(long)p; } static void unlock(void *p) { cleaned++; pthread_mutex_unlock(p); }
static void *sleeper(void *p) { pthread_setspecific(key, p); pthread_cleanup_push(clean, p); started++; for (;;) sleep(100); pthread_cleanup_pop(0); return NULL; }
static void *reader(void *p) { char c; pthread_setspecific(key, p); pthread_cleanup_push(clean, p); started++; if (read(pipes[0], &c, 1) >= 0) abort(); pthread_cleanup_pop(0); return NULL; }
static void *waiter(void *p) { (void)p; pthread_mutex_lock(&m); pthread_cleanup_push(unlock, &m); started++; for (;;) pthread_cond_wait(&cv, &m); pthread_cleanup_pop(0); return NULL; }
static void *computer(void *p) { pthread_cleanup_push(clean, p); started++; for (volatile unsigned long i = 0;; i++) if (i % 1000 == 0) pthread_testcancel(); pthread_cleanup_pop(0); return NULL; }
static void *async(void *p) { int old; pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old); pthread_cleanup_push(clean, p); started++; for (volatile unsigned long i = 0;; i++) { } pthread_cleanup_pop(0); return NULL; }
int main(void) {
  if (pipe(pipes)) return 2; pthread_key_create(&key, destroy); void *(*f[])(void *) = { sleeper, reader, waiter, computer, async };
  for (int r = 0; r < 10; r++) { pthread_t t[5]; started = 0; for (long i = 0; i < 5; i++) pthread_create(&t[i], NULL, f[i], (void *)(i + 1)); while (started < 5) usleep(100); if (r & 1) usleep(2000);
    int gone = 0; for (int i = 0; i < 5; i++) pthread_cancel(t[i]); for (int i = 0; i < 5; i++) { void *v; pthread_join(t[i], &v); gone += v == PTHREAD_CANCELED; } printf("%d cleaned %d destroyed %d\n", gone, cleaned, destroyed); }
}
