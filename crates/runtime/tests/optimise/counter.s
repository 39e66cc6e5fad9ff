# frame 32
# A counter and a sum: loads become registers, stores stay.
    mov eax, dword ptr [rbp-8]
    add dword ptr [rbp-4], eax
    add dword ptr [rbp-8], 1
    cmp dword ptr [rbp-8], 99
    jle 0x1000
----
rbp = rsp + 32
r3 is 4 bytes at 24
r6 is 4 bytes at 28
    mov eax,ebx
    add esi,ebx
    mov dword ptr [rbp-4],esi
    add ebx,1
    mov dword ptr [rbp-8],ebx
    cmp ebx,63h
jle 0000000000001014h
