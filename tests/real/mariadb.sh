# needs: mariadbd mariadb-install-db mariadb
# packages: mariadb-server
# A server of many threads, with asynchronous input and output, and its clients.
t mariadb-install-db --no-defaults --user=root --datadir="$PWD/data" --auth-root-authentication-method=normal >/dev/null 2>&1
t mariadbd --no-defaults --user=root --datadir="$PWD/data" --socket="$PWD/s" --skip-networking --pid-file="$PWD/pid" >log 2>&1 &
server=$!
for i in $(seq 600); do mariadb -uroot -S "$PWD/s" -e 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
q() { t mariadb -uroot -S "$PWD/s" -N -e "$1"; }
q 'create database d; use d; create table d.t (a int primary key auto_increment, b varchar(40), c double, key (b)) engine=innodb; insert into d.t (b, c) select concat("k", seq % 1009), sqrt(seq) from seq_1_to_20000'
q 'select b, count(*), round(sum(c), 6) from d.t group by b order by 2 desc, 1 limit 5; select count(*), md5(group_concat(a order by a)) from d.t where b like "k1%"'
for n in 1 2 3; do (for i in $(seq 8); do q "update d.t set c = c + $n where a % 7 = $n; select count(*) from d.t x join d.t y using (b) where x.a < 300" >/dev/null; done) & jobs[n]=$!; done
for n in 1 2 3; do wait ${jobs[n]}; done
q 'select round(sum(c), 4) from d.t; alter table d.t add column e double as (c * 2) stored; select round(sum(e), 4) from d.t; select sha2(repeat("ab", 100000), 256), json_value("{\"a\": [1, 2]}", "$.a[1]"), "abcabc" regexp "(abc){2}"'
kill -TERM "$(cat pid)"; wait $server; echo "ended $?"
