// build: -O2 -fno-inline -pthread | -O0 -pthread
// More calls than a node has places for: one instruction that calls six functions in turn, twelve calls in a row, jumps by pointer,
// in two threads after one another and in a forked child. tests/contexts.rs knows how often each way leads to `leaf`.
// With a number: so many calls by one instruction, of one function (`same`) or of six in turn.
//
// contexts_many [CALLS [same]]
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
static volatile int count;

KEEP void leaf(void) { count++; }

KEEP void f0(void) { leaf(); count++; }
KEEP void f1(void) { leaf(); count += 2; }
KEEP void f2(void) { leaf(); count += 3; }
KEEP void f3(void) { leaf(); count += 4; }
KEEP void f4(void) { leaf(); count += 5; }
KEEP void f5(void) { leaf(); count += 6; }
static void (*volatile in_turn[])(void) = {f0, f1, f2, f3, f4, f5};

KEEP void rotates(int n) { for (int i = 0; i < n; i++) in_turn[i % 6](); count++; }
KEEP void same(int n) { for (int i = 0; i < n; i++) in_turn[0](); count++; }

KEEP void straight(void)
{
    f0(); f1(); f2(); f3(); f4(); f5();
    f0(); f1(); f2(); f3(); f4(); f5();
    count++;
}

// At -O2 a jump.
KEEP void hop(int i) { count++; in_turn[i % 6](); }
KEEP void hops(int n) { for (int i = 0; i < n; i++) hop(i); count++; }

static void *worker(void *unused) { rotates(30); return unused; }
KEEP void in_child(void) { rotates(12); }

int main(int argc, char **argv)
{
    if (argc > 1) {
        (argc > 2 ? same : rotates)(atoi(argv[1]));
        return 0;
    }
    rotates(60);
    for (int n = 0; n < 3; n++) {
        pthread_t thread;
        straight();
        hops(18);
        if (n < 2) {
            pthread_create(&thread, NULL, worker, NULL);
            pthread_join(thread, NULL);
        } else if (!fork()) {
            in_child();
            exit(0);
        }
    }
    rotates(6);
    wait(NULL);
}
