# needs: bash
# Pipes, subshells, job control, traps, coprocesses, here-documents, process substitution.
cat >script <<'S'
set -u
trap 'echo usr1' USR1
f() { local i; for ((i = 0; i < 300; i++)); do echo "$((i * i % 97))"; done; }
f | sort -n | uniq -c | sort -k1,1nr -k2,2n | head -5
echo "$(f | md5sum)" "$( (exit 3); echo $? )"
diff <(f) <(f | cat) && echo same
coproc C { while read -r l; do echo "<$l>"; done; }
echo one >&"${C[1]}"; read -r answer <&"${C[0]}"; echo "$answer"
exec {C[1]}>&-; wait "$C_PID" 2>/dev/null
for i in 1 2 3 4 5 6; do (sleep 0.0$i; exit $i) & done
sum=0; for i in 1 2 3 4 5 6; do wait -n; sum=$((sum + $?)); done; echo "sum $sum"
kill -USR1 $$
# A signal is sent once the child is what it is to be: before its exec it has the shell's traps.
sleep 5 & victim=$!; sleep 0.3; kill -TERM $victim; wait $victim; echo "killed $?"
set -m; sleep 30 & sleep 0.3; kill -STOP %1; sleep 0.3; jobs -l | sed 's/ *[0-9]\{2,\}/ PID/'; kill -CONT %1; kill %1; wait %1; echo "job $?"
while read -r a b; do echo "$b $a"; done <<H
first second
third fourth
H
for i in $(seq 60); do v=$(/bin/echo "$i" | tr 0-9 a-j); printf '%s ' "$v"; done; echo
ulimit -v 4000000; nonexistent_command_here 2>&1 | sed 's/.*: //'
trap 'echo leaving $?' EXIT
exit 7
S
t bash script && exit 1 || echo "status $?"
