// Threads that walk lists allocated in order, with signals of a timer, and children that go on with the walk after a fork.
// Each prints what it comes to, one after the other.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 40000, THREADS = 2, CHILDREN = 2, TIMES = 200 };

struct record {
    struct record *next;
    long key;
    char text[4096 + 64 - 2 * sizeof(long)];
};

static struct record *all;
static volatile sig_atomic_t ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

__attribute__((noinline)) static long walk(const struct record *r)
{
    long sum = 0;
    for (; r; r = r->next)
        sum = sum * 3 + r->key;
    return sum;
}

static void *walks(void *from)
{
    unsigned long sum = 0;
    for (long i = 0; i < TIMES; i++)
        sum = sum * 31 + walk(&all[(long)from * 7 + i]);
    return (void *)sum;
}

int main(void)
{
    all = mmap(NULL, RECORDS * sizeof *all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 2;
    for (long i = 0; i < RECORDS; i++) {
        all[i].next = i + 1 < RECORDS ? &all[i + 1] : NULL;
        all[i].key = i * 7 % 1001;
    }
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[THREADS];
    for (long t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, walks, (void *)t);
    for (long t = 0; t < THREADS; t++) {
        void *sum;
        pthread_join(threads[t], &sum);
        printf("thread %ld %lx\n", t, (unsigned long)sum);
    }
    fflush(stdout);
    for (long c = 0; c < CHILDREN; c++) {
        pid_t child = fork();
        if (child == 0) {
            printf("child %ld %lx\n", c, (unsigned long)walks((void *)(c + 10)));
            return 0;
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0)
            return 3;
    }
    printf("ticks %d\n", ticks > 0);
    return 0;
}
