# frame 32
# Locked instructions, vectors and strings are done as they are; what they write is in doubt.
    mov eax, dword ptr [rbp-4]
    lock add dword ptr [rbp-4], 1
    mov ecx, dword ptr [rbp-4]
    movss xmm0, dword ptr [rbp-8]
    movss dword ptr [rbp-8], xmm0
    add eax, dword ptr [rbp-8]
    setne byte ptr [rbp-9]
    cmp byte ptr [rbp-9], 1
    jne 0x1000
----
no second round
