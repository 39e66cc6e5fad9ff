// Robust mutexes whose owner goes: a thread that returns, one that is cancelled, a child that exits, is killed, or executes another program; then a pending one.
// build: -O2 -pthread | -O0 -static -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
struct shared { pthread_mutex_t m[64]; unsigned word; };
static struct shared *s; static pthread_barrier_t bar;
static void make(int n) { pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST); pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED); pthread_mutex_init(&s->m[n], &a); }
static void take(const char *who, int n) { int r = pthread_mutex_lock(&s->m[n]); printf("%s: %s", who, r == EOWNERDEAD ? "owner dead" : r ? "other" : "free"); if (r == EOWNERDEAD) printf(", %d", pthread_mutex_consistent(&s->m[n])); printf(", %d\n", pthread_mutex_unlock(&s->m[n])); }
static void *returns(void *p) { for (int i = 0; i < 40; i++) pthread_mutex_lock(&s->m[i]); return p; }
static void *blocks(void *p) { pthread_mutex_lock(&s->m[40]); pthread_barrier_wait(&bar); for (;;) pause(); return p; }
static void *waits(void *p) { int r = pthread_mutex_lock(&s->m[41]); pthread_mutex_consistent(&s->m[41]); pthread_mutex_unlock(&s->m[41]); return (void *)(long)(r + (long)p); }
int main(int c, char **v) {
  setvbuf(stdout, NULL, _IONBF, 0); if (c > 1) { sleep(1); return 0; }
  s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); for (int i = 0; i < 64; i++) make(i);
  pthread_barrier_init(&bar, NULL, 2); pthread_t t; pthread_create(&t, NULL, returns, NULL); pthread_join(t, NULL); for (int i = 0; i < 40; i += 13) take("returned", i);
  pthread_create(&t, NULL, blocks, NULL); pthread_barrier_wait(&bar); pthread_cancel(t); pthread_join(t, NULL); take("cancelled", 40);
  const char *ways[] = {"exits", "is killed", "executes", "faults"};
  for (int w = 0; w < 4; w++) { int p[2]; if (pipe(p)) return 2; pid_t k = fork(); if (!k) { signal(SIGSEGV, SIG_DFL); pthread_mutex_lock(&s->m[41]); if (write(p[1], "x", 1) != 1) _exit(1); usleep(20000);
      if (w == 0) _exit(0); if (w == 1) raise(SIGKILL); if (w == 2) execl("/proc/self/exe", v[0], "again", (char *)0); *(volatile int *)8 = 1; }
    char b; if (read(p[0], &b, 1) != 1) return 3; pthread_t u; pthread_create(&u, NULL, waits, (void *)0L); void *r; pthread_join(u, &r); printf("%s: %s\n", ways[w], (long)r == EOWNERDEAD ? "owner dead" : "other"); int st; kill(k, SIGKILL); waitpid(k, &st, 0); take(ways[w], 41); close(p[0]); close(p[1]); }
  pid_t k = fork(); if (!k) { void *head; size_t len; if (syscall(SYS_get_robust_list, 0, &head, &len)) _exit(1); printf("list of %zu bytes\n", len); s->word = syscall(SYS_gettid) | FUTEX_WAITERS;
    struct robust_list_head h = {{&h.list}, 0, (struct robust_list *)&s->word}; struct { struct robust_list_head h; } *q = malloc(sizeof *q); q->h = h; q->h.list.next = &q->h.list; if (syscall(SYS_set_robust_list, &q->h, sizeof q->h)) _exit(2); _exit(0); }
  int st; waitpid(k, &st, 0); printf("pending: %d %#x\n", st >> 8, s->word & FUTEX_OWNER_DIED); return 7; }
