# needs: memcached /usr/bin/python3
# packages: memcached
# A server with four threads and a client that checks each answer.
t memcached -u root -U 0 -s "$PWD/s" -t 4 -m 64 -P "$PWD/pid" &
server=$!
cat >client.py <<'S'
import socket, threading, time, sys
def connect():
    for i in range(200):
        try: s = socket.socket(socket.AF_UNIX); s.connect("s"); return s.makefile("rwb")
        except OSError: time.sleep(0.05)
bad = []
def work(n):
    f = connect()
    for i in range(1500):
        k, v = f"k{n}.{i % 100}".encode(), (f"{n}:{i};" * (i % 40 + 1)).encode()
        f.write(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (k, len(v), v, k)); f.flush()
        if f.readline() != b"STORED\r\n" or f.readline() != b"VALUE %s 0 %d\r\n" % (k, len(v)) or f.read(len(v) + 2) != v + b"\r\n" or f.readline() != b"END\r\n": bad.append((n, i)); return
ts = [threading.Thread(target=work, args=(n,)) for n in range(6)]
[t.start() for t in ts]; [t.join() for t in ts]
print("bad", bad)
S
/usr/bin/python3 client.py
kill -TERM "$(cat pid)"; wait $server; echo "ended $?"
