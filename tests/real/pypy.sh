# needs: pypy3
# packages: pypy3
# A tracing JIT, and greenlets whose stacks are copied.
cat >a.py <<'S'
import hashlib, json, re, threading, os, sys, zlib
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(26)); d = {}
for i in range(600000): d[i % 1009] = d.get(i % 1009, 0) + i
print(d[17]); s = 0
for i in range(5000000): s = (s * 31 + i) % 1000003
print(s)
class A:
    def f(self, x): return x + 1
class B(A):
    def f(self, x): return x * 3 & 0xffff
o = [A(), B()]; s = 0
for i in range(1000000): s = o[i & 1].f(s)
print(s, sum(x * x for x in range(300000)), len(re.sub(r'(\w+)@(\w+)', r'\2', 'a@b c@d ' * 5000)))
import _continuation
def g(c):
    x = 0
    while True: x = c.switch(x * 2)
c = _continuation.continulet(g); c.switch(); print(sum(c.switch(i) or 0 for i in range(20000)))
r = []; ts = [threading.Thread(target=lambda n=n: r.append(sum(i * n for i in range(100000)))) for n in range(4)]; [t.start() for t in ts]; [t.join() for t in ts]; print(sorted(r))
def deep(n): return deep(n + 1)
try: deep(0)
except RecursionError: print('deep')
print(hashlib.sha256(b'ab' * 100000).hexdigest(), len(zlib.compress(b'y' * 100000)), json.loads(json.dumps([{'a': [1, 2.5, None]}] * 300))[7]); p = os.fork()
if not p: os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]), eval('1+2'), 2.0 ** 0.5); sys.exit(4)
S
t pypy3 a.py || echo "status $?"; (t pypy3 --jit threshold=2,function_threshold=3 a.py || echo "status $?") | md5sum; t pypy3 --jit off -c 'print(sum(range(100000)))'
