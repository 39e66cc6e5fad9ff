/* An interpreter of a small stack machine: one switch, a program of loops and calls. */
#include <stdio.h>
#include <stdlib.h>

enum { PUSH, LOAD, STORE, ADD, SUB, MUL, MOD, LESS, JUMP, UNLESS, CALL, BACK, END };

static int code[] = {
    /*  0 */ PUSH, 0, STORE, 0, PUSH, 0, STORE, 1,
    /*  8 */ LOAD, 0, LOAD, 7, LESS, UNLESS, 41,
    /* 15 */ LOAD, 0, CALL, 42, LOAD, 1, ADD, PUSH, 1000003, MOD, STORE, 1,
    /* 27 */ LOAD, 0, PUSH, 1, ADD, STORE, 0, JUMP, 8, END, END, END, END, END,
    /* 41 */ END,
    /* 42 */ STORE, 2, LOAD, 2, LOAD, 2, MUL, PUSH, 31, ADD, PUSH, 97, MOD, LOAD, 2, PUSH, 7, SUB, ADD, BACK,
};

static long run(long n)
{
    long stack[64], variables[8] = { 0 };
    int calls[16], depth = 0, pc = 0, top = 0;
    variables[7] = n;
    for (;;) {
        switch (code[pc++]) {
        case PUSH: stack[top++] = code[pc++]; break;
        case LOAD: stack[top++] = variables[code[pc++]]; break;
        case STORE: variables[code[pc++]] = stack[--top]; break;
        case ADD: top--; stack[top - 1] += stack[top]; break;
        case SUB: top--; stack[top - 1] -= stack[top]; break;
        case MUL: top--; stack[top - 1] *= stack[top]; break;
        case MOD: top--; stack[top - 1] %= stack[top]; break;
        case LESS: top--; stack[top - 1] = stack[top - 1] < stack[top]; break;
        case JUMP: pc = code[pc]; break;
        case UNLESS: pc = stack[--top] ? pc + 1 : code[pc]; break;
        case CALL: calls[depth++] = pc + 1; pc = code[pc]; break;
        case BACK: pc = calls[--depth]; break;
        default: return variables[1];
        }
    }
}

int main(int argc, char **argv)
{
    printf("%ld\n", run(argc > 1 ? atol(argv[1]) * 100000 : 100000));
    return 0;
}
