# needs: runuser
# packages: postgresql
# initdb, a server with its processes, pgbench with four clients, an orderly end; as a user that is not root.
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb | tail -1)")
chmod 755 "$PWD"; mkdir db; chown postgres db "$DATA"
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
as env PATH="$PATH" t "$bin/initdb" -D "$PWD/db" -A trust -N --no-locale -E UTF8 >initdb.out 2>&1 || { tail -5 initdb.out; exit 1; }
as env PATH="$PATH" t "$bin/postgres" -D "$PWD/db" -c unix_socket_directories="$PWD/db" -c listen_addresses= -c fsync=off -c shared_buffers=16MB >log 2>&1 &
server=$!
p() { as psql -h "$PWD/db" -d postgres -qAt "$@"; }
for i in $(seq 400); do p -c 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
as pgbench -h "$PWD/db" -i -s 1 -q postgres >/dev/null 2>&1
as pgbench -h "$PWD/db" -c 4 -j 2 -t 100 postgres 2>/dev/null | grep 'actually processed'
p -c 'select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts) from pgbench_history'
p -c "create table t as select i, md5(i::text) m from generate_series(1, 20000) i; create index on t(m); analyze t; select count(*), min(m), max(m) from t where m > 'a'"
p -c "set max_parallel_workers_per_gather = 2; set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; select sum(length(m)) from t"
as "$bin/pg_ctl" -D "$PWD/db" -m fast stop >/dev/null; wait $server && echo ended
