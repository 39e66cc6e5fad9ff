/* Starts children, each of which takes the kernel a while: there is much memory to share with it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 10, BYTES = 48 << 20, ROUNDS = 10000 };

static volatile long sum;

static void compute(void) {
    for (int i = 0; i < ROUNDS; i++)
        sum += i;
}

int main(void) {
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    madvise(memory, BYTES, MADV_NOHUGEPAGE);
    memset(memory, 1, BYTES);
    for (int n = 0; n < CHILDREN; n++) {
        int status;
        compute();
        pid_t child = n % 2 ? vfork() : fork();
        if (child == 0) {
            if (n % 2 == 0)
                compute();
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
            return 2;
    }
    puts("done");
    return 0;
}
