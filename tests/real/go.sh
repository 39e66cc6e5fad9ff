# needs: go
# packages: golang-go
# The Go compiler and linker, and a program of goroutines, channels, maps, a collector and nil checks.
export GOCACHE=$PWD/cache GOFLAGS=-mod=mod GO111MODULE=off HOME=$PWD
cat >a.go <<'S'
package main
import ("crypto/sha256"; "fmt"; "os"; "os/exec"; "runtime"; "sort"; "sync"; "time")
type S interface{ F(int) int }
type A struct{ k int }; type B struct{ k int }
func (a A) F(x int) int { return x*a.k + 1 }
func (b *B) F(x int) int { return x ^ b.k }
func nilDeref() (r string) { defer func() { r = fmt.Sprint(recover() != nil) }(); var b *B; return fmt.Sprint(b.k) }
func main() {
	ch, out := make(chan int), make(chan [32]byte, 10); var wg sync.WaitGroup
	for w := 0; w < 8; w++ { wg.Add(1); go func() { defer wg.Done(); for n := range ch { out <- sha256.Sum256([]byte(fmt.Sprint(n))) } }() }
	go func() { for i := 0; i < 3000; i++ { ch <- i }; close(ch); wg.Wait(); close(out) }()
	var x [32]byte; for h := range out { for i := range x { x[i] ^= h[i] } }; fmt.Printf("%x\n", x)
	ss := []S{A{3}, &B{5}, A{7}}; v := 1; for i := 0; i < 3000000; i++ { v = ss[i%3].F(v) & 0xffff }; fmt.Println(v)
	m := map[string]int{}; for i := 0; i < 200000; i++ { m[fmt.Sprint(i%1009)] += i }; ks := []string{}; for k := range m { ks = append(ks, k) }; sort.Strings(ks); fmt.Println(len(ks), m["17"])
	for i := 0; i < 200; i++ { nilDeref() }; fmt.Println(nilDeref())
	stop := make(chan bool); go func() { for { select { case <-stop: return; default: } } }(); time.Sleep(50 * time.Millisecond); close(stop)
	var keep [][]byte; for i := 0; i < 20000; i++ { keep = append(keep, make([]byte, 512)); if i%4000 == 0 { keep = nil; runtime.GC() } }
	o, _ := exec.Command("echo", "child").Output(); fmt.Print(string(o)); os.Exit(9)
}
S
t go build -o a a.go
t ./a || echo "status $?"
