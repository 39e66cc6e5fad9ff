# needs: java javac
# The compiler and programs with threads, exceptions, null checks by SIGSEGV, under four collectors and interpreters.
cat >P.java <<'S'
import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class P {
  interface S { long f(long x); } record Sq(int k) implements S { public long f(long x) { return x * x % (k + 7); } } record Ad(int k) implements S { public long f(long x) { return x + k; } }
  static int depth(int n) { return n == 0 ? 0 : 1 + depth(n - 1); }
  static String nul(String s) { try { return "" + s.length(); } catch (NullPointerException e) { return "npe"; } }
  public static void main(String[] a) throws Exception {
    S[] s = { new Sq(3), new Ad(5), new Sq(11), x -> x ^ 9 }; long v = 1; for (int i = 0; i < 3_000_000; i++) v = s[i & 3].f(v) & 0xfffff; System.out.println(v);
    int n = 0; for (int i = 0; i < 20000; i++) n += nul(i % 3 == 0 ? null : "abc").length(); System.out.println(n);
    try { depth(10_000_000); } catch (StackOverflowError e) { System.out.println("deep"); }
    var pool = Executors.newFixedThreadPool(4); var fs = new ArrayList<Future<Long>>();
    for (int k = 0; k < 24; k++) { final int q = k; fs.add(pool.submit(() -> { var m = new HashMap<Integer, String>(); for (int i = 0; i < 20000; i++) m.merge(i % 997, "" + q, (x, y) -> x.length() > 50 ? y : x + y); return m.values().stream().mapToLong(String::hashCode).sum(); })); }
    long t = 0; for (var f : fs) t += f.get(); pool.shutdown(); System.out.println(t);
    System.out.println(IntStream.range(0, 200000).parallel().filter(i -> Integer.bitCount(i) % 3 == 1).asLongStream().sum());
    byte[][] keep = new byte[50][]; for (int i = 0; i < 20000; i++) keep[i % 50] = new byte[i % 3000]; System.out.println(Arrays.stream(keep).mapToInt(b -> b.length).sum());
    System.out.println(new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()).trim());
    System.exit(5);
  }
}
S
t javac P.java
for o in -Xint -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UseParallelGC -XX:+UseG1GC -XX:+UseZGC -XX:-TieredCompilation; do t java -Xmx256m $o P || echo "$o $?"; done
