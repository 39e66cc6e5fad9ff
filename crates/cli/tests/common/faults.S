# Loads that fault in the midst of straight code, with loads before and after them; the handler goes on after each. No library, and the
# same each time.
.intel_syntax noprefix
.data
.balign 64
words:
    .quad 1, 2, 3, 4, 5, 6, 7, 8
action:
    .quad handler, 0x04000004, restorer, 0      # SA_SIGINFO | SA_RESTORER
.text
.globl _start
_start:
    mov eax, 13
    mov edi, 11
    lea rsi, [rip + action]
    xor edx, edx
    mov r10d, 8
    syscall
    mov r15d, 400
    lea rbx, [rip + words]
    xor r14d, r14d
again:
    mov rax, [rbx]
    mov rcx, [rbx + 8]
    add rax, rcx
    mov rdx, [rbx + 16]
    # The flags live across it.
    cmp rax, rdx
    mov rsi, [rbx + 24]
    mov r8, [r14]
    mov r9, [rbx + 32]
    ja 1f
    add r9, 1
1:  call more
    test r15d, 7
    jz 2f
    mov r10, [rbx + 48]
    add [r14 + 8], r10
    mov r11, [rbx + 56]
    xor r11, r10
2:  dec r15d
    jnz again
    xor edi, edi
    mov eax, 231
    syscall
more:
    push rbx
    mov r12, [rbx + 40]
    movzx r13d, byte ptr [r14 + 16]
    pop rbx
    ret
# The context is in rdx. Loads that fault are told by their first bytes, and so is how long they are.
handler:
    mov rax, [rdx + 168]                        # rip
    mov cl, [rax]
    mov esi, 3                                  # mov r8, [r14]
    cmp cl, 0x4d
    jne 3f
    cmp byte ptr [rax + 1], 0x8b
    je 5f
    mov esi, 4                                  # add [r14 + 8], r10
    jmp 5f
3:  mov esi, 5                                  # movzx r13d, byte ptr [r14 + 16]
5:  add [rdx + 168], rsi
    ret
restorer:
    mov eax, 15
    syscall
