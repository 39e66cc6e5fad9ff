# needs: /usr/bin/python3
# Threads, locks, queues, timers and a pool in python.
cat >script.py <<'S'
import threading, queue, concurrent.futures, hashlib, time, sys, signal, ctypes, json, zlib
sys.setswitchinterval(1e-5)
q, out, lock = queue.Queue(), {}, threading.Lock()
def work():
    while (n := q.get()) is not None:
        h = hashlib.sha256(str(n).encode() * 200).hexdigest()
        with lock: out[n] = h
ts = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in ts]
[q.put(n) for n in range(600)]; [q.put(None) for _ in ts]
[t.join() for t in ts]
print(hashlib.sha256(json.dumps(out, sort_keys=True).encode()).hexdigest())
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    print(sum(pool.map(lambda n: len(zlib.compress(bytes(range(256)) * n)), range(1, 120))))
hits = 0
def tick(*_):
    global hits; hits += 1
signal.signal(signal.SIGALRM, tick); signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
n = 0
while hits < 100: n += 1
signal.setitimer(signal.ITIMER_REAL, 0); print("ticks")
CMP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
a = (ctypes.c_int * 500)(*[i * 7919 % 1009 for i in range(500)])
ctypes.CDLL(None).qsort(a, 500, 4, CMP(lambda x, y: x[0] - y[0])); print(list(a) == sorted(a), a[250])
e = threading.Event(); threading.Timer(0.05, e.set).start(); print(e.wait(5))
S
t /usr/bin/python3 script.py
