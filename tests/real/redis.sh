# needs: redis-server redis-benchmark redis-cli
# packages: redis-server
# A server with I/O threads under redis-benchmark: every answer counted, a snapshot by fork, an orderly end.
cat >redis.conf <<S
port 0
unixsocket $PWD/s
save ""
io-threads 2
io-threads-do-reads yes
dir $PWD
S
t redis-server redis.conf >log 2>&1 &
server=$!
c() { redis-cli -s s "$@"; }
for i in $(seq 200); do [ "$(c ping 2>/dev/null)" = PONG ] && break; sleep 0.05; done
redis-benchmark -s s -q -n 20000 -c 20 --threads 2 incr counter >bench 2>&1
c get counter
redis-benchmark -s s -q -n 5000 -c 20 -t set,get,lpush,lpop,sadd,hset,zadd,mset >>bench 2>&1
for i in $(seq 1 50); do echo "rpush l $i"; done | c >/dev/null; c lrange l 0 -1 | sha256sum
c eval 'local s = 0 for i = 1, 100000 do s = (s * 31 + i) % 1000003 end return s' 0
c bgsave; for i in $(seq 100); do [ "$(c info persistence | tr -d '\r' | sed -n s/rdb_bgsave_in_progress://p)" = 0 ] && break; sleep 0.05; done
c info persistence | tr -d '\r' | grep rdb_last_bgsave_status
c config set appendonly yes
for i in $(seq 200); do c info persistence | tr -d '\r' | grep -q 'aof_rewrite_in_progress:0' && c info persistence | tr -d '\r' | grep -q 'aof_rewrite_scheduled:0' && break; sleep 0.05; done
c dbsize
c shutdown nosave; wait $server && echo ended
