// Threads that sleep in system calls of all kinds while another makes code all the time; they are woken by data, by signals, and in the end.
// build: -O2 -pthread | -O2 -static -pthread
// run: 40
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { N = 6, FUNCTIONS = 512, ROUND = 16 };
static int in[N][2]; static sem_t told, posted; static _Thread_local volatile int signals;
static void usr(int s) { (void)s; signals++; sem_post(&told); }
static unsigned char mixed(unsigned char c, int n) { for (int i = 0; i < n; i++) c = c & 1 ? (c >> 1) ^ 0x8c : c >> 1; return c; }
// How often calls are interrupted depends on where a thread is when a signal comes.
__attribute__((noinline)) static int get(int id, unsigned char *c) {
  struct pollfd p = {.fd = in[id][0], .events = POLLIN}; struct epoll_event e = {.events = EPOLLIN}; sigset_t none; fd_set set;
  switch (id) {
  case 0: break;
  case 1: while (poll(&p, 1, -1) != 1); break;
  case 2: sigemptyset(&none); while (ppoll(&p, 1, NULL, &none) != 1); break;
  case 3: { int fd = epoll_create1(0); epoll_ctl(fd, EPOLL_CTL_ADD, in[id][0], &e); while (epoll_wait(fd, &e, 1, -1) != 1); close(fd); break; }
  case 4: FD_ZERO(&set); do FD_SET(in[id][0], &set); while (select(in[id][0] + 1, &set, NULL, NULL, NULL) != 1); break;
  case 5: while (sem_wait(&posted)); break;
  }
  return read(in[id][0], c, 1) == 1; }
static void *sleeper(void *p) {
  int id = (int)(long)p; unsigned char c; unsigned long sum = 0;
  while (get(id, &c) && c) { sum = sum * 31 + mixed(c, 20); sem_post(&told); }
  return (void *)(sum * 1000 + (unsigned long)signals); }
// Functions of a few instructions each, new ones all the time: no two rounds have the same.
static unsigned long churned(unsigned char *code, int round) {
  unsigned long sum = 0;
  for (int f = 0; f < FUNCTIONS; f++) {
    unsigned char *at = code + 64 * f; int k = round * FUNCTIONS + f;
    unsigned char text[] = {0xb8, 0, 0, 0, 0, 0x85, 0xff, 0x74, 3, 0x8d, 0x04, 0x38, 0x31, 0xf0, 0xc3}; // mov eax, k; test edi, edi; je +3; lea eax, [rax+rdi]; xor eax, esi; ret
    memcpy(text + 1, &k, 4); memcpy(at, text, sizeof text); }
  for (int r = 0; r < 2; r++) for (int f = 0; f < FUNCTIONS; f++) sum = sum * 3 + ((unsigned (*)(unsigned, unsigned))(code + 64 * f))(f + r, round);
  return sum; }
static void put(int id, unsigned char c) { if (write(in[id][1], &c, 1) != 1) abort(); if (id == 5) sem_post(&posted); }
static void wait_told(void) { while (sem_wait(&told)); }
int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 40; unsigned long sum = 0; pthread_t t[N]; void *v;
  sem_init(&told, 0, 0); sem_init(&posted, 0, 0); struct sigaction sa = {.sa_handler = usr, .sa_flags = SA_RESTART}; sigaction(SIGUSR1, &sa, NULL);
  for (long i = 0; i < N; i++) { if (pipe(in[i])) abort(); pthread_create(&t[i], NULL, sleeper, (void *)i); }
  unsigned char *code = mmap(NULL, 64 * FUNCTIONS, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int r = 0; r < rounds; r++) {
    sum = sum * 7 + churned(code, r);
    if (r % ROUND == 5) for (int i = 0; i < N; i += 2) { put(i, (unsigned char)(r + i) | 1); wait_told(); }
    if (r % ROUND == 11) for (int i = 1; i < N; i++) { pthread_kill(t[i], SIGUSR1); wait_told(); }
    if (r % (2 * ROUND) == 20) { pthread_kill(t[0], SIGUSR1); wait_told(); put(0, 77); wait_told(); } }
  for (int i = 0; i < N; i++) { put(i, 0); pthread_join(t[i], &v); printf("%lu ", (unsigned long)v); }
  printf("\n%lx\n", sum); }
