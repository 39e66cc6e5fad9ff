// A small program without a C library: sorting, hashing, strings, floating point, calls through a table,
// division, repeated string instructions and instructions that change several registers.
typedef unsigned long u64;
typedef unsigned char u8;

static u64 numbers[24];
static double reals[32];
static u8 text[96], copy[96];
static u64 *links[16];

__attribute__((noinline)) void sort(u64 *from, u64 *to) {
    if (to - from < 2)
        return;
    u64 pivot = from[(to - from) / 2], *low = from, *high = to - 1;
    for (;;) {
        while (*low < pivot)
            low++;
        while (*high > pivot)
            high--;
        if (low >= high)
            break;
        u64 other = *low;
        *low++ = *high;
        *high-- = other;
    }
    sort(from, low);
    sort(low, to);
}

__attribute__((noinline)) void store_reference(u64 **place, u64 *what) { *place = what; }

__attribute__((noinline)) u64 hash(const u8 *bytes, u64 length) {
    u64 sum = 14695981039346656037u;
    while (length--)
        sum = (sum ^ *bytes++) * 1099511628211u;
    return sum;
}

__attribute__((noinline)) double mean(const double *list, int count) {
    double sum = 0;
    for (int n = 0; n < count; n++)
        sum += list[n] * 0.5 + (float)n;
    return sum / count;
}

static u64 add(u64 a, u64 b) { return a + b; }
static u64 divide(u64 a, u64 b) { return a / (b | 1) + a % (b | 1); }
static u64 rotate(u64 a, u64 b) { return a << (b & 31) | a >> 7; }
static u64 (*const table[])(u64, u64) = {add, divide, rotate};

__attribute__((noinline)) u64 oddities(u64 a, u64 b) {
    u64 low, high, flag;
    __asm__ volatile("mov %2, %%rax\n mul %3\n mov %%rax, %0\n mov %%rdx, %1"
                     : "=&r"(low), "=&r"(high) : "r"(a), "r"(b) : "rax", "rdx", "cc");
    __asm__ volatile("xor %%eax, %%eax\n lock cmpxchg %2, %1\n setz %b0\n movzx %b0, %k0"
                     : "=&q"(flag), "+m"(numbers[1]) : "r"(b) : "rax", "cc", "memory");
    __asm__ volatile("mov $5, %%ecx\n 1: dec %%rax\n loop 1b\n jrcxz 2f\n nop\n 2:" ::: "rax", "rcx", "cc");
    __asm__ volatile("push %0\n push $-3\n pushq (%%rsp)\n pop %%rcx\n pop %%rdx\n pop %%rax\n"
                     "xchg %%rcx, %%rdx\n xadd %%rcx, %%rdx\n mov %%ah, %%cl\n cmp %%ch, %%al\n bswap %%rdx\n cqo\n"
                     "mov (%1), %%rax\n mov 8(%1), %%rcx\n lea 3(%1,%%rcx,4), %%rcx\n mov (%1), %1\n"
                     :: "r"(a), "r"(numbers) : "rax", "rcx", "rdx", "cc", "memory");
    __asm__ volatile("movups (%0), %%xmm1\n movaps %%xmm1, %%xmm2\n paddq %%xmm1, %%xmm2\n"
                     "movups %%xmm2, 16(%0)\n movd %%xmm2, %%eax\n pxor %%xmm1, %%xmm1\n cvtsi2sd %%eax, %%xmm1\n"
                     :: "r"(copy) : "rax", "xmm1", "xmm2", "memory");
    return low ^ high ^ flag;
}

__attribute__((noinline)) void strings(void) {
    void *to = copy;
    const void *from = text;
    u64 count = 37;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
    count = 5;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0x1122334455667788u) : "memory");
    to = copy;
    count = 20;
    __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(9) : "cc", "memory");
    count = 0;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
}

static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

__attribute__((force_align_arg_pointer)) void _start(void) {
    u64 seed = 1, sum = 0;
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < 24; n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            numbers[n] = seed >> 33;
            text[n * 4] = (u8)(seed >> 40);
            reals[n & 31] = (double)(seed >> 50);
            sum += table[seed % 3](seed >> 20, seed >> 45);
            store_reference(&links[n & 15], seed >> 63 ? &numbers[n] : 0);
        }
        sort(numbers, numbers + 24);
        strings();
        sum += hash(text, sizeof text) + (u64)mean(reals, 32) + oddities(sum, seed);
        for (int n = 0; n < 16; n++)
            sum += links[n] ? *links[n] : 1;
    }
    call(1, 1, (long)&sum, 8);
    call(231, (long)(sum & 63), 0, 0);
}
