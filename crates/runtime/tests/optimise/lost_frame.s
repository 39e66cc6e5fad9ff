# frame 32
# A callee that stores through a pointer may have changed the saved frame pointer: nothing is kept.
    call 0x1000
    push rbp
    mov rbp, rsp
    mov byte ptr [rdi], 0
    pop rbp
    ret
    add dword ptr [rbp-8], eax
    sub dword ptr [rbp-4], 1
    jne 0x1000
----
no second round
