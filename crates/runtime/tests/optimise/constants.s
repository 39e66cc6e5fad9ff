# frame 48
# Constants are folded, and stay where a fault would show what they are computed of.
    mov eax, 3
    lea eax, [rax+rax*4]
    shl eax, 4
    add eax, dword ptr [rbp-8]
    mov dword ptr [rbp-8], eax
    mov edx, 5
    imul edx, edx, 100
    mov ecx, dword ptr [rsi]
    mov edx, 6
    imul edx, edx, 100
    add edx, dword ptr [rbp-8]
    sub dword ptr [rbp-4], 1
    jne 0x1000
----
rbp = rsp + 48
r3 is 4 bytes at 40
r7 is 4 bytes at 44
r8 is r0 after instruction 2
r9 is r2 after instruction 9
    (joined)
    (joined)
    mov rax,r8
    (joined)
    add eax,ebx
mov [rbp-8],eax
    mov ebx,eax
mov edx,5
imul edx,64h
mov ecx,[rsi]
    (joined)
    mov rdx,r9
    (joined)
    add edx,ebx
    sub edi,1
    mov dword ptr [rbp-4],edi
jne 0000000000001030h
