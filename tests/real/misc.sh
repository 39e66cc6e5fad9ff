# needs: bash sort find tar diff bc
# What scripts call: find and xargs, tar through gzip, sort with threads, parallel pipes, awk, a daemon that detaches.
mkdir d; for i in $(seq 80); do seq "$i" >"d/$i"; done
t find d -type f -name '*7*' -exec wc -l {} + | sort -k2
t sh -c 'find d -type f -print0 | sort -z | xargs -0 -n 5 -P 2 cat | sort -n | uniq -c | md5sum'
t tar --sort=name --owner=0 --group=0 --mtime=@0 -czf d.tgz d; t tar -xzOf d.tgz | md5sum
t sh -c 'yes trommel | head -c 3000000 | tr a-z b-za | md5sum'
t timeout 0.3 sleep 10 || echo "status $?"
t sh -c 'exec bash -c "exec -a name sh -c \"echo \\\$0; kill -TERM \\\$\\\$\""' || echo "status $?"
t bash -c '(trap "" HUP; setsid sh -c "sleep 0.3; echo daemon >daemon.out" </dev/null >/dev/null 2>&1 &) ; echo parent'
for i in $(seq 40); do [ -s daemon.out ] && break; sleep 0.1; done; cat daemon.out
t env -i A=b sh -c 'echo $A; env | wc -l'; echo '2^200' | t bc; t nice -n 3 nohup echo nice 2>/dev/null; t stdbuf -oL echo stdbuf
