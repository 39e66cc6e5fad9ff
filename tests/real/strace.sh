# needs: strace
# packages: strace
# strace as the program that is observed, following children.
t strace -f -q -e trace=openat,execve,write,exit_group -o log sh -c 'echo a; (echo b | cat); exit 3' || echo "status $?"
grep -c 'write(1' log; sed 's/^[0-9]* //' log | grep -o 'exit_group([0-9]*' | sort | uniq -c
t strace -c -o sums ls / >/dev/null; grep -c 'total' sums
