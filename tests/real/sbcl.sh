# needs: sbcl
# packages: sbcl
# A compiler that runs what it has just written, with a collector that protects pages.
cat >a.lisp <<'S'
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(compile 'fib) (print (fib 25))
(let ((h (make-hash-table :test 'equal))) (dotimes (i 60000) (incf (gethash (format nil "~a" (mod i 101)) h 0) i)) (print (gethash "17" h)))
(print (length (let ((l nil)) (dotimes (i 1000000 l) (push (list i) l) (when (> (length l) 10) (setf l (list (car l))))))))
(dotimes (i 20) (let ((f (compile nil `(lambda (x) (* x ,i (+ x ,(* i i))))))) (princ (funcall f 7)) (princ " ")))
(handler-case (car (the list (eval '(+ 1 2)))) (error () (print :caught)))
(handler-case (labels ((deep (n) (+ 1 (deep n)))) (deep 1)) (storage-condition () (print :exhausted)))
(gc :full t) (terpri) (sb-ext:exit :code 4)
S
t sbcl --noinform --non-interactive --load a.lisp 2>/dev/null || echo "status $?"
t sbcl --noinform --non-interactive --eval '(progn (compile-file "a.lisp") (sb-ext:exit :code 6))' >/dev/null 2>&1 || echo "status $?"
