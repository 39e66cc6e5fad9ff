// One thread runs code from memory that is writable at the same time, installs a seccomp filter, or starts a process in its memory, while others compute, wait or handle
// signals: whatever becomes of observation, all of them go on, and their signals, faults and cancellation work.
// build: -O2 -pthread
// run: code
// run: seccomp
// run: memory
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int stop, hits, faults, cleaned; static sem_t there, posted; static _Thread_local volatile int mine; static char *page;
static void usr(int s) { (void)s; mine++; hits++; }
static void segv(int s, siginfo_t *i, void *c) { (void)s; (void)c; if ((char *)i->si_addr != page + 16) _exit(70); faults++; mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static unsigned long burn(unsigned long x) { for (int i = 0; i < 1000; i++) x = x * 6364136223846793005u + (x >> 60 & 1); return x; }
static void *computer(void *p) { sem_post(&there); unsigned long x = (unsigned long)p; while (!stop) x = burn(x); return (void *)(x | 1); }
static void *waiter(void *p) { (void)p; sem_post(&there); while (sem_wait(&posted)); for (int i = 0; i < 100; i++) burn(i); return (void *)(long)mine; }
static void clean(void *p) { (void)p; cleaned++; }
static void *victim(void *p) { pthread_cleanup_push(clean, p); sem_post(&there); for (;;) sleep(100); pthread_cleanup_pop(0); return NULL; }
static void *late(void *p) { return (void *)burn((unsigned long)p); }
static volatile int shared; static int child(void *p) { shared = 42; return 3; }
int main(int c, char **v) {
  setvbuf(stdout, NULL, _IONBF, 0); sem_init(&there, 0, 0); sem_init(&posted, 0, 0); page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction sa; memset(&sa, 0, sizeof sa); sa.sa_handler = usr; sa.sa_flags = SA_RESTART; sigaction(SIGUSR1, &sa, NULL); sa.sa_handler = NULL; sa.sa_sigaction = segv; sa.sa_flags = SA_SIGINFO; sigaction(SIGSEGV, &sa, NULL);
  pthread_t t[6]; void *(*f[6])(void *) = { computer, computer, waiter, waiter, victim, victim }; for (long i = 0; i < 6; i++) pthread_create(&t[i], NULL, f[i], (void *)i); for (int i = 0; i < 6; i++) sem_wait(&there); usleep(2000);
  if (c > 1 && !strcmp(v[1], "seccomp")) { struct sock_filter code[] = { { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } }; struct sock_fprog prog = { 1, code }; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); printf("seccomp %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)); }
  else if (c > 1 && !strcmp(v[1], "memory")) { char *stack = malloc(65536); int st, pid = clone(child, stack + 65536, CLONE_VM | SIGCHLD, NULL); waitpid(pid, &st, 0); printf("child %d %d\n", shared, WEXITSTATUS(st)); }
  else { unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); int s = 0; for (int i = 0; i < 5; i++) { unsigned char text[] = { 0xb8, (unsigned char)i, 0, 0, 0, 0xc3 }; memcpy(code, text, sizeof text); s += ((int (*)(void))code)(); } printf("code %d\n", s); }
  for (int r = 0; r < 10; r++) { for (int i = 0; i < 4; i++) pthread_kill(t[i], SIGUSR1); mprotect(page, 4096, PROT_NONE); page[16] = 1; raise(SIGUSR1); usleep(1000); }
  for (int r = 0; r < 5000 && hits < 14; r++) usleep(1000);
  printf("faults %d own %d hits %d\n", faults, mine, hits >= 14); pthread_t n; pthread_create(&n, NULL, late, (void *)3); void *r; pthread_join(n, &r); printf("%lx\n", (unsigned long)r);
  pthread_cancel(t[4]); pthread_cancel(t[5]); for (int i = 4; i < 6; i++) { pthread_join(t[i], &r); printf("%d ", r == PTHREAD_CANCELED); } printf("cleaned %d\n", cleaned);
  sem_post(&posted); sem_post(&posted); stop = 1; for (int i = 0; i < 4; i++) { pthread_join(t[i], &r); printf("%d ", r != NULL); } puts(""); signal(SIGSEGV, SIG_DFL); mprotect(page, 4096, PROT_NONE); page[16] = 1; }
