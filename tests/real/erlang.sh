# needs: erl erlc
# packages: erlang-base
# A JIT with stacks on its heap, schedulers in threads, processes that are many, and a port's child.
cat >a.erl <<'S'
-module(a). -export([main/0]).
fib(N) when N < 2 -> N; fib(N) -> fib(N - 1) + fib(N - 2).
ring(0, P) -> P; ring(N, P) -> ring(N - 1, spawn(fun() -> pass(P) end)).
pass(P) -> receive stop -> P ! stop; M -> P ! M + 1, pass(P) end.
main() ->
  io:format("~p~n", [fib(24)]), R = ring(500, self()),
  [begin R ! 0, receive X -> X end end || _ <- lists:seq(1, 100)], R ! 0, receive Y -> io:format("~p~n", [Y]) end, R ! stop, receive stop -> ok end,
  M = lists:foldl(fun(I, A) -> maps:update_with(I rem 1009, fun(V) -> V + I end, I, A) end, #{}, lists:seq(1, 200000)), io:format("~p ~p~n", [maps:size(M), maps:get(17, M)]),
  B = binary:copy(<<"abc">>, 100000), io:format("~p ~p~n", [erlang:md5(B), byte_size(zlib:compress(B))]),
  Me = self(), Ps = [spawn(fun() -> Me ! {self(), lists:sum([X1 * X1 || X1 <- lists:seq(1, 20000)])} end) || _ <- lists:seq(1, 16)],
  io:format("~p~n", [lists:sum([receive {P, S} -> S end || P <- Ps])]),
  io:format("~p~n", [catch hd(element(1, {[]}))]) , io:format("~s", [os:cmd("echo child")]), io:format("~p~n", [erlang:crc32(term_to_binary(lists:seq(1, 5000)))]),
  E = ets:new(e, [public, {write_concurrency, true}]), [ets:insert(E, {I, I * I}) || I <- lists:seq(1, 20000)], io:format("~p ~.6f~n", [ets:info(E, size), math:sqrt(2)]), halt(3).
S
t erlc a.erl >/dev/null; t erl -noshell -s a main || echo "status $?"
t erl +S 1 -noshell -eval 'io:format("~p~n", [lists:sum(lists:seq(1, 100000))]), halt(0).'
