# needs: /usr/bin/python3
# Processes by fork, spawn and forkserver, pools, shared memory, managers, asyncio subprocesses.
cat >script.py <<'S'
import multiprocessing as mp, asyncio, subprocess, os, signal
from multiprocessing import shared_memory
def f(n): return sum(i * i % 7 for i in range(n))
def g(name, i):
    s = shared_memory.SharedMemory(name); s.buf[i] = i * 3 % 256; s.close()
def h(q, n): q.put((n, f(n * 100)))
async def many():
    async def one(n):
        p = await asyncio.create_subprocess_exec("expr", str(n), "*", "3", stdout=asyncio.subprocess.PIPE)
        return int((await p.communicate())[0])
    return sum(await asyncio.gather(*[one(n) for n in range(1, 25)]))
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        c = mp.get_context(how)
        with c.Pool(3) as p: print(how, sum(p.map(f, range(0, 3000, 50))))
        q = c.Queue(); ps = [c.Process(target=h, args=(q, n)) for n in range(5)]
        [p.start() for p in ps]; print(sorted(q.get() for _ in ps)); [p.join() for p in ps]
        print([p.exitcode for p in ps])
    s = shared_memory.SharedMemory(create=True, size=16)
    ps = [mp.Process(target=g, args=(s.name, i)) for i in range(16)]; [p.start() for p in ps]; [p.join() for p in ps]
    print(bytes(s.buf)[:16]); s.close(); s.unlink()
    print(asyncio.run(many()))
    with mp.Manager() as m:
        d = m.dict(); ps = [mp.Process(target=d.__setitem__, args=(i, i * i)) for i in range(5)]; [p.start() for p in ps]; [p.join() for p in ps]; print(sorted(d.items()))
    p = mp.Process(target=os.kill, args=(0, signal.SIGSTOP)) ; print(subprocess.run(["sh", "-c", "kill -SEGV $$"]).returncode)
    print(subprocess.run("cat; echo $0 $X >&2; exit 4", shell=True, input=b"in", env={"X": "y", "PATH": os.environ["PATH"]}, capture_output=True))
S
t /usr/bin/python3 script.py
