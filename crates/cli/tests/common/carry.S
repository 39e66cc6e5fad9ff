# The carry lives on over branches, and nothing else of the flags does: what is done with it is the exit status.
.globl _start
.text
_start:
    mov $20000, %ebx
    xor %esi, %esi
    xor %edi, %edi
    xor %r8d, %r8d
1:
    lea (%rbx,%rbx,2), %edx
    and $63, %edx
    cmp $31, %edx
    je 2f
    jb 3f                       # the carry of the comparison
    add $3, %esi
    jmp 4f
2:
    adc $5, %esi                # no carry here
    jmp 4f
3:
    adc $7, %esi                # the carry, and what the branch led to
4:
    cmp %edx, %r8d
    js 5f
    nop
5:
    sbb %edi, %edi              # the carry, whichever way
    sub %edi, %esi
    bt $2, %ebx
    adc $0, %esi
    inc %r8d
    and $63, %r8d
    dec %ebx
    jnz 1b
    mov %esi, %eax
    shr $8, %eax
    xor %eax, %esi
    and $0x7f, %esi
    mov %esi, %edi
    mov $231, %eax
    syscall
