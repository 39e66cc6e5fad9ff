// Work at the end of call paths that the source tells: recursion, a tail call, exceptions, a signal's handler, a thread, a library that comes
// and goes, and code generated at run time that keeps a frame pointer. All names are C's, so that they read the same everywhere.
//   paths TURNS [forked]       `forked`: a child does the same, and another program is executed by a second child
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile unsigned long sink;
static const char *library;

extern "C" {
// What it adds to is its own: two threads that write to one line take longer, the more they run side by side.
APART void burn(long n) { volatile unsigned long sum = 0; for (long i = 0; i < n; i++) sum += i * i; }
APART void leaf(long n) { burn(n); sink++; }

APART int deep(int depth) {
    if (depth == 0) { leaf(300000); return 1; }
    int below = deep(depth - 1) + 1;
    sink++;
    return below;
}

// Its call of `leaf` is a jump: it is on no path.
APART void hands_on(long n) { sink++; leaf(n); }
APART void tails(void) { hands_on(300000); sink++; }

APART void throws(int depth) {
    if (depth == 0) throw 1;
    throws(depth - 1);
    sink++;
}
APART void catches(void) {
    try { throws(8); } catch (int) { leaf(300000); sink++; }
}

APART void handles(int) { leaf(300000); sink++; }
APART void raises(void) { raise(SIGUSR1); sink++; }

APART void *threaded(void *turns) {
    for (long n = 0; n < (long)turns; n++) leaf(300000);
    return nullptr;
}

typedef void (*Loaded)(void (*)(long), long);
APART void loads(void) {
    void *open = dlopen(library, RTLD_NOW);
    if (!open) { fprintf(stderr, "%s\n", dlerror()); exit(2); }
    ((Loaded)dlsym(open, "loaded"))(leaf, 300000);
    dlclose(open);
    sink++;
}

// push rbp; mov rbp, rsp; mov rax, rsi; call rax; pop rbp; ret
static const unsigned char CODE[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf0, 0xff, 0xd0, 0x5d, 0xc3};
static void (*generated)(long, void (*)(long));
APART void generates(void) {
    if (!generated) {
        void *at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(at, CODE, sizeof CODE);
        generated = (void (*)(long, void (*)(long)))at;
    }
    generated(300000, leaf);
    sink++;
}

APART void works(long turns) {
    for (long n = 0; n < turns; n++) {
        deep(20);
        tails();
        catches();
        raises();
        if (library) loads();
        generates();
    }
}
}

int main(int argc, char **argv) {
    long turns = argc > 1 ? atol(argv[1]) : 100;
    library = getenv("PATHS_LIBRARY");
    signal(SIGUSR1, handles);
    if (argc > 2) {
        if (fork() == 0) { works(turns); _exit(0); }
        if (fork() == 0) { execl(argv[0], argv[0], argv[1], (char *)nullptr); _exit(1); }
        while (wait(nullptr) > 0) {}
        return 0;
    }
    pthread_t thread;
    pthread_create(&thread, nullptr, threaded, (void *)turns);
    works(turns);
    pthread_join(thread, nullptr);
    return 0;
}
