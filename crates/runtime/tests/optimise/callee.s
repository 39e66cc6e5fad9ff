# frame 32
# A call: its frame lies below, its stores are known not to meet the slots.
    mov eax, dword ptr [rbp-4]
    mov edi, eax
    call 0x1000
    push rbp
    mov rbp, rsp
    mov dword ptr [rbp-20], edi
    mov eax, dword ptr [rbp-20]
    imul eax, eax
    pop rbp
    ret
    add dword ptr [rbp-8], eax
    sub dword ptr [rbp-4], 1
    jne 0x1000
----
rbp = rsp + 32
r3 is 4 bytes at 28
r6 is 4 bytes at -36
r8 is 4 bytes at 24
    mov eax,ebx
    mov edi,ebx
call 000000000000100Ah
push rbp
mov rbp,rsp
    mov dword ptr [rbp-14h],ebx
    mov esi,ebx
    mov eax,ebx
    imul eax,ebx
pop rbp
ret
    add r8d,eax
    mov dword ptr [rbp-8],r8d
    sub ebx,1
    mov dword ptr [rbp-4],ebx
jne 0000000000001026h
