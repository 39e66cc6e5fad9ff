# needs: z3 clang Rscript emacs vim
# packages: z3 clang r-base-core emacs-nox vim-nox
# Large C++ programs, an interpreter of Fortran's numbers, editors with images of their heaps and libraries of machine code.
cat >a.smt2 <<'S'
(declare-const x (_ BitVec 24)) (declare-const y (_ BitVec 24)) (assert (= (bvmul x y) #x0a2b3c)) (assert (bvugt x #x000001)) (assert (bvugt y x)) (check-sat)
(push) (declare-const a Int) (declare-const b Int) (assert (and (> a 2) (> b 2) (= (+ (* 3 a) (* 5 b)) 101))) (check-sat) (pop) (declare-fun f (Int) Int) (assert (= (f (f 3)) 5)) (assert (= (f 3) 4)) (check-sat) (eval (f 4))
S
t z3 a.smt2 | md5sum; printf '#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n#include <iostream>\nint main() { std::map<std::string, int> m; for (int i = 0; i < 9999; i++) m[std::to_string(i %% 77)] += i; std::vector<int> v; for (auto &p : m) v.push_back(p.second); std::sort(v.begin(), v.end()); std::cout << v[5] << "\\n"; }\n' >a.cc
t clang++ -O2 -S a.cc -o - | md5sum; t clang++ -O1 -g a.cc -o a; t ./a; t clang -fsyntax-only -xc++ a.cc -Wall; echo 'int f( {' | t clang -xc - -fsyntax-only 2>/dev/null || echo "status $?"
echo 'set.seed(3); x <- rnorm(20000); m <- lm(x[-1] ~ x[-20000]); print(round(coef(m), 8)); a <- matrix(runif(10000), 100); print(round(sum(solve(a) %*% a), 6)); f <- function(n) if (n < 2) n else f(n - 1) + f(n - 2); print(f(18)); print(tryCatch(stop("x"), error = function(e) "caught")); print(sum(sapply(strsplit(rep("a,b,c", 500), ","), length))); quit(status = 4)' >a.R; t Rscript a.R || echo "status $?"
cat >a.el <<'S'
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (princ (fib 20)) (terpri) (byte-compile 'fib) (princ (fib 22)) (terpri)
(with-temp-buffer (dotimes (i 5000) (insert (format "line %d\n" i))) (goto-char (point-min)) (princ (how-many "7$")) (terpri) (sort-lines t (point-min) (point-max)) (princ (md5 (buffer-string))) (terpri)) (condition-case nil (car 5) (error (princ "caught\n"))) (kill-emacs 3)
S
t emacs --batch -Q -l a.el 2>/dev/null || echo "status $?"; seq 3000 >l; t vim -es -u NONE -c '%s/7/x/g' -c 'g/x/m0' -c 'sort n' -c 'w! m' -c 'q!' l || true; md5sum <m
