/* Stores in several threads at a time, each with the thread's number and its own. At the end it writes a byte into a file, for which a slow
 * service waits (holding.c).
 *
 *   dropped FILE THREADS STORES
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 8

static unsigned long stores;
static volatile unsigned long cells[MOST];
static pthread_barrier_t together;

__attribute__((noinline)) static void store(unsigned long who, unsigned long value) { cells[who] = value; }

static void *run(void *argument)
{
    unsigned long who = (unsigned long)argument;
    pthread_barrier_wait(&together);
    for (unsigned long n = 1; n <= stores; n++) store(who, who << 32 | n);
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[MOST];
    unsigned long many;
    int file;
    if (count != 4) return 2;
    file = open(arguments[1], O_WRONLY);
    many = strtoul(arguments[2], NULL, 10);
    stores = strtoul(arguments[3], NULL, 10) / many;
    if (file < 0 || many > MOST || pthread_barrier_init(&together, NULL, many) != 0) return 3;
    for (unsigned long n = 1; n < many; n++)
        if (pthread_create(&threads[n], NULL, run, (void *)n) != 0) return 4;
    run((void *)0);
    for (unsigned long n = 1; n < many; n++) pthread_join(threads[n], NULL);
    return write(file, "", 1) != 1;
}
