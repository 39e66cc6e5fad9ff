# frame 48
# What writes a part of a register leaves the rest, which is looked at.
    mov eax, dword ptr [rbp-8]
    mov ecx, dword ptr [rbp-12]
    mov cl, 5
    add eax, ecx
    mov al, 7
    mov dword ptr [rbp-8], eax
    shl ecx, 3
    mov ecx, dword ptr [rbp-8]
    xor ecx, 77
    sub dword ptr [rbp-4], 1
    jne 0x1000
----
rbp = rsp + 48
r3 is 4 bytes at 40
r6 is 4 bytes at 44
    mov eax,ebx
mov ecx,[rbp-0Ch]
mov cl,5
add eax,ecx
mov al,7
mov [rbp-8],eax
    mov ebx,eax
    (joined)
    mov ecx,ebx
    (joined)
xor ecx,4Dh
    sub esi,1
    mov dword ptr [rbp-4],esi
jne 0000000000001022h
