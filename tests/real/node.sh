# needs: node
# The JIT, its collector, worker threads, a server and its client, child processes.
cat >a.js <<'S'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), http = require('http'), cp = require('child_process');
if (!isMainThread) { let s = 0; for (let i = 0; i < workerData * 1e5; i++) s = (s * 31 + i) | 0; parentPort.postMessage(s); }
else (async () => {
  class A { f(x) { return x + 1 } } class B extends A { f(x) { return super.f(x) * 2 | 0 } }
  let s = 0; const os = [new A, new B, { f: x => x ^ 5 }]; for (let i = 0; i < 3e6; i++) s = os[i % 3].f(s) & 0xffffff; console.log(s);
  const m = new Map; for (let i = 0; i < 2e5; i++) m.set('k' + i % 5003, (m.get('k' + i % 5003) || 0) + i); console.log(m.size, m.get('k17'));
  let t = []; for (let i = 0; i < 3e5; i++) t.push({ i, s: 'x' + i }); console.log(t.filter(o => o.i % 7 == 3).length); t = null;
  console.log(crypto.createHash('sha256').update('abc'.repeat(1e5)).digest('hex'), zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(1e6, 'ab'))).length);
  console.log(await Promise.all([1, 2, 3, 4].map(n => new Promise((ok, no) => new Worker(__filename, { workerData: n }).on('message', ok).on('error', no)))));
  const re = /(\w+)@(\w+)\.com/g; console.log('a@b.com c@d.com '.repeat(1000).replace(re, '$2:$1').length);
  const f = new Function('a', 'b', 'return a * b + ' + 3); console.log(f(6, 7), eval('1+' + f(1, 2)));
  const server = http.createServer((q, r) => { let n = 0; q.on('data', d => n += d.length).on('end', () => r.end(q.url + n)) }).listen(0, '127.0.0.1', async () => {
    let all = ''; for (let i = 0; i < 60; i++) all += await new Promise(ok => { const q = http.request({ port: server.address().port, host: '127.0.0.1', path: '/' + i, method: 'POST' }, r => { let b = ''; r.on('data', d => b += d).on('end', () => ok(b)) }); q.end('y'.repeat(i * 100)) });
    console.log(crypto.createHash('md5').update(all).digest('hex')); server.close();
    console.log(cp.execFileSync('sh', ['-c', 'echo child; exit 0']).toString().trim(), cp.spawnSync('false').status);
    const wasm = new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11]);
    const { instance } = await WebAssembly.instantiate(wasm); console.log(instance.exports.add(40, 2));
    process.exitCode = 3;
  });
})();
S
t node a.js || echo "status $?"
t node -e 'throw new Error("x")' 2>/dev/null || echo "status $?"
