# needs: ocamlopt ocamlc
# packages: ocaml-nox
# A compiler written in itself, native code with exceptions that move the stack, bytecode, threads.
cat >a.ml <<'S'
exception Found of int
let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let rec deep n = if n = 0 then raise (Found 7) else 1 + deep (n - 1)
let () = Printf.printf "%d\n" (fib 27)
let () = let h = Hashtbl.create 16 in for i = 1 to 300000 do let k = i mod 1009 in Hashtbl.replace h k (i + try Hashtbl.find h k with Not_found -> 0) done; Printf.printf "%d %d\n" (Hashtbl.length h) (Hashtbl.find h 17)
let () = let s = ref 0 in for i = 1 to 2000 do (try s := !s + deep (i mod 300) with Found x -> s := !s + x) done; Printf.printf "%d\n" !s
let () = (try let rec f n = 1 + f (n + 1) in Printf.printf "%d\n" (f 0) with Stack_overflow -> print_endline "deep")
let () = let t = List.init 4 (fun n -> Thread.create (fun () -> let s = ref 0.0 in for i = 1 to 300000 do s := !s +. sin (float (i * n)) done; if n = 3 then Printf.printf "%.9f\n" !s) ()) in List.iter Thread.join t
let () = let m = List.sort compare (List.init 100000 (fun i -> i * 7919 mod 100003)) in Printf.printf "%d\n" (List.nth m 500)
let () = Gc.compact (); let a = [| 1; 2 |] in (try ignore (a.(Sys.opaque_identity 5)) with Invalid_argument s -> print_endline s)
let () = (try ignore (1 / Sys.opaque_identity 0) with Division_by_zero -> print_endline "zero"); print_endline (Digest.to_hex (Digest.string (String.make 300000 'x'))); exit 3
S
t ocamlopt -I +threads unix.cmxa threads.cmxa a.ml -o a >/dev/null 2>&1; t ./a || echo "status $?"
t ocamlc -I +threads unix.cma threads.cma a.ml -o b >/dev/null 2>&1; t ./b || echo "status $?"
echo 'let rec f n = if n = 0 then 0 else n + f (n - 1);; print_int (f 1000);;' >c.ml; t ocaml c.ml
