# needs: guile gforth swipl ecl racket
# packages: guile-3.0 gforth swi-prolog-nox ecl racket
# Interpreters and compilers with stacks, jumps and collectors of their own.
cat >a.scm <<'S'
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (display (fib 24)) (newline)
(define k #f) (define n 0) (display (+ 1 (call/cc (lambda (c) (set! k c) 1)))) (newline) (set! n (+ n 1)) (if (< n 500) (k n))
(define h (make-hash-table)) (do ((i 0 (+ i 1))) ((= i 100000)) (hash-set! h (modulo i 1009) i)) (display (hash-ref h 17)) (newline)
(display (call-with-prompt 'p (lambda () (let loop ((i 0)) (if (= i 1000) (abort-to-prompt 'p i) (loop (+ i 1))))) (lambda (k x) (* x 2)))) (newline)
(display (catch #t (lambda () (vector-ref (vector 1) 5)) (lambda a 'caught))) (newline) (display (expt 3 200)) (newline) (exit 3)
S
t guile --no-auto-compile a.scm | md5sum || echo "status $?"
echo ': fib dup 2 < if drop 1 else dup 1- recurse swap 2 - recurse + then ; 25 fib . cr : t 0 1000000 0 do i 7 xor + loop ; t . cr bye' >a.fs; t gforth a.fs
cat >a.pl <<'S'
:- initialization(main). app([], L, L). app([H|T], L, [H|R]) :- app(T, L, R).
q(N, Qs) :- numlist(1, N, L), permutation(L, Qs), safe(Qs). safe([]). safe([Q|Qs]) :- no(Q, Qs, 1), safe(Qs). no(_, [], _). no(Q, [A|As], D) :- abs(Q - A) =\= D, D1 is D + 1, no(Q, As, D1).
main :- q(6, Q), print(Q), nl, findall(X-Y, app(X, Y, [1,2,3]), L), print(L), nl, numlist(1, 50000, N), foldl([A,B,C]>>(C is (A + B) mod 10007), N, 0, S), print(S), nl,
  catch(X is 1 / 0, error(E, _), (print(E), nl)), thread_create(true, T), thread_join(T, St), print(St), nl, Z is 3 ** 200, print(Z), nl, halt(5).
S
t swipl a.pl || echo "status $?"
t ecl --norc --eval '(progn (print (loop for i below 100000 sum (mod (* i i) 7))) (print (handler-case (error "x") (error () :caught))) (terpri) (ext:quit 4))' || echo "status $?"
cat >a.rkt <<'S'
#lang racket/base
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (displayln (fib 25))
(define ts (for/list ([n 5]) (thread (lambda () (for ([i 10000]) (void)) (thread-send main n))))) (define main (current-thread))
(displayln (for/sum ([i 5]) (thread-receive))) (displayln (let/cc k (for ([i 100]) (when (= i 50) (k i))) 0)) (displayln (with-handlers ([void (lambda (e) 'caught)]) (car 5)))
(define h (make-hash)) (for ([i 100000]) (hash-update! h (modulo i 1009) (lambda (x) (+ x i)) 0)) (displayln (hash-ref h 17)) (displayln (expt 3 100)) (exit 2)
S
t racket a.rkt || echo "status $?"
