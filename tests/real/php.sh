# needs: php
# packages: php-cli php-opcache
# An interpreter whose instructions are functions that keep the machine's registers, and its JIT.
cat >a.php <<'S'
<?php
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } echo fib(23), "\n";
$a = []; for ($i = 0; $i < 300000; $i++) { $k = "k" . ($i % 1009); $a[$k] = ($a[$k] ?? 0) + $i; } echo count($a), " ", $a["k17"], "\n";
function g($n) { for ($i = 0; $i < $n; $i++) { $x = yield $i; if ($x) $i += $x; } return 7; } $s = 0; foreach (g(100000) as $v) $s += $v; echo $s, "\n";
$f = new Fiber(function ($x) { while (true) $x = Fiber::suspend($x * 2); }); $t = $f->start(1); for ($i = 0; $i < 5000; $i++) $t += $f->resume($i); echo $t, "\n";
class A { function __get($n) { return strlen($n); } public $y = 1; } $o = new A; $s = 0; for ($i = 0; $i < 200000; $i++) $s += $o->abc + $o->y; echo $s, "\n";
echo md5(preg_replace_callback('/\d+/', fn($m) => (string)($m[0] * 2), str_repeat("a1b22 ", 3000))), "\n";
try { intdiv(1, 0); } catch (DivisionByZeroError $e) { echo get_class($e), "\n"; }
$b = range(1, 20000); usort($b, fn($x, $y) => ($x * 7919 % 10007) <=> ($y * 7919 % 10007)); $m = 0.0; for ($i = 1; $i < 500000; $i++) $m += sin($i) / $i; printf("%.9f\n", $m);
echo hash('sha256', str_repeat("ab", 100000)), " ", strlen(gzuncompress(gzcompress(str_repeat("y", 100000)))), " ", json_encode(json_decode('{"a":[1,2.5,null]}')), "\n";
exit(4);
S
t php a.php 2>/dev/null || echo "status $?"
for jit in tracing function; do (t php -d opcache.enable_cli=1 -d opcache.jit_buffer_size=32M -d opcache.jit=$jit a.php 2>/dev/null || echo "status $?") | md5sum; done
