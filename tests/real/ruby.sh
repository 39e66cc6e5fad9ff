# needs: ruby
# packages: ruby
# A collector that looks for pointers on the stack, fibers with stacks of their own, threads, children, exceptions.
cat >a.rb <<'S'
def fib(n) n < 2 ? n : fib(n - 1) + fib(n - 2) end
puts fib(22)
h = Hash.new(0); 200_000.times { |i| h["k#{i % 1009}"] += i }; puts h.size, h["k17"]
f = Fiber.new { |x| loop { x = Fiber.yield(x * 2) } }; puts (1..2000).sum { |i| f.resume(i) }
e = Enumerator.new { |y| a, b = 0, 1; loop { y << a; a, b = b, a + b } }; puts e.lazy.select(&:even?).first(30).last
fs = (1..300).map { |n| Fiber.new { n.times { Fiber.yield n }; n } }; s = 0
while (fs.select!(&:alive?); !fs.empty?) do fs.each { |x| s += x.resume } end; puts s
q = Queue.new; ts = 4.times.map { |n| Thread.new { 500.times { |i| q << n * i } } }; ts.each(&:join); t = 0; t += q.pop until q.empty?; puts t
def deep(n) deep(n + 1) end; begin; deep(0); rescue SystemStackError; puts "deep"; end
r, w = IO.pipe; pid = fork { r.close; w.puts((1..1000).sum); exit! 3 }; w.close; puts r.read; Process.wait pid; puts $?.exitstatus
Signal.trap("USR1") { $got = true }; Process.kill("USR1", $$); sleep 0.01 until $got; puts "signal"
30.times { GC.start; Array.new(5000) { |i| i.to_s * 3 } }; puts "x".encode("UTF-16LE").bytes.inspect, 3 ** 200, 1e300 * 10, Rational(3, 7) ** 9
ObjectSpace.each_object(Class).count > 100 and puts "classes"; puts eval("1 + 2"), `echo child`
require 'digest'; require 'zlib'; require 'json'; puts Digest::SHA256.hexdigest("ab" * 100000), Zlib.inflate(Zlib.deflate("y" * 100000)).size, JSON.parse(JSON.generate([{ "a" => [1, 2.5, nil] }] * 500)).size
exit 5
S
t ruby a.rb || echo "status $?"
t ruby --yjit -e 'puts 1' >/dev/null 2>&1 && t ruby --yjit a.rb | md5sum || true
t ruby -e 'raise "x"' 2>/dev/null || echo "status $?"
