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
rbp = rsp + 32
r3 is 4 bytes at 28
r6 is 4 bytes at 24
r7 is 1 bytes at 23
    mov eax,ebx
lock add dword ptr [rbp-4],1
    renew: mov ebx,dword ptr [rbp-4]
    mov ecx,ebx
movss xmm0,[rbp-8]
movss [rbp-8],xmm0
    renew: cmp esi,dword ptr [rbp-8]; jne: mov esi,dword ptr [rbp-8]
    add eax,esi
setne [rbp-9]
    renew: cmp dil,byte ptr [rbp-9]; jne: mov dil,byte ptr [rbp-9]
    cmp dil,1
jne 0000000000001026h
