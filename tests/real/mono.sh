# needs: mono mcs
# packages: mono-runtime mono-mcs
# A JIT that patches calls in its code, a collector that stops threads by signals, null pointers that are exceptions.
cat >a.cs <<'S'
using System; using System.Collections.Generic; using System.Linq; using System.Threading; using System.Text;
interface I { int F(int x); } class A : I { public int F(int x) { return x + 1; } } class B : I { public int F(int x) { return x * 3; } }
class P { class N { public N next; public int v; }
  static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }
  static IEnumerable<int> G() { for (int i = 0; ; i++) yield return i * i % 1009; }
  static int Main() {
    Console.WriteLine(Fib(27)); I[] o = { new A(), new B() }; int s = 0; for (int i = 0; i < 3000000; i++) s = o[i & 1].F(s) & 0xffffff; Console.WriteLine(s);
    var d = new Dictionary<string, int>(); for (int i = 0; i < 200000; i++) { var k = "k" + i % 1009; int v; d.TryGetValue(k, out v); d[k] = v + i; } Console.WriteLine(d["k17"]);
    long sum = 0; var ts = Enumerable.Range(0, 4).Select(n => new Thread(() => { long t = 0; for (int i = 0; i < 200000; i++) { var l = new List<int> { i, n }; t += l.Sum(); } Interlocked.Add(ref sum, t); })).ToList(); ts.ForEach(t => t.Start()); ts.ForEach(t => t.Join()); Console.WriteLine(sum);
    int c = 0; for (int i = 0; i < 300; i++) { N n = i % 3 == 0 ? null : new N { v = i }; try { c += n.v; } catch (NullReferenceException) { c++; } } Console.WriteLine(c);
    try { int z = 0; Console.WriteLine(1 / z); } catch (DivideByZeroException) { Console.WriteLine("zero"); }
    N head = null; for (int i = 0; i < 1000000; i++) { head = new N { next = i % 1000 == 0 ? null : head, v = i }; } GC.Collect(); Console.WriteLine(head.v);
    Console.WriteLine(G().Where(x => x % 7 == 3).Take(2000).Sum()); object l2 = new object(); int q = 0; var us = Enumerable.Range(0, 3).Select(n => new Thread(() => { for (int i = 0; i < 20000; i++) lock (l2) q++; })).ToList(); us.ForEach(t => t.Start()); us.ForEach(t => t.Join()); Console.WriteLine(q);
    var e = System.Linq.Expressions.Expression.Lambda<Func<int>>(System.Linq.Expressions.Expression.Constant(42)).Compile(); Console.WriteLine(e()); return 6; } }
S
t mcs -r:System.Core.dll a.cs; t mono a.exe || echo "status $?"; t mono -O=all a.exe | md5sum || true
