# needs: nginx wrk
# packages: nginx-light wrk
# A master and two workers serve files while they are reloaded; requests are checked one by one, then many at once.
mkdir www logs; for i in $(seq 20); do seq $((i * 400)) >www/$i; done
cat >n.conf <<S
worker_processes 2; pid $PWD/pid; error_log $PWD/logs/error;
$( [ "$(id -u)" = 0 ] && echo "user root;" )
events { worker_connections 256; }
http { access_log off; client_body_temp_path $PWD/b; proxy_temp_path $PWD/p; fastcgi_temp_path $PWD/f; uwsgi_temp_path $PWD/u; scgi_temp_path $PWD/s;
server { listen 127.0.0.1:18480; root $PWD/www; gzip on; gzip_types *; } }
S
t nginx -p "$PWD" -c n.conf -g 'daemon off;' 2>err &
server=$!
cat >client.py <<'S'
import http.client, hashlib, sys, time
for i in range(200):
    try: c = http.client.HTTPConnection("127.0.0.1", 18480, timeout=20); c.connect(); break
    except OSError: time.sleep(0.05)
h = hashlib.sha256()
for i in range(300):
    c.request("GET", f"/{i % 21 + 1}", headers={"Accept-Encoding": "gzip" if i % 3 == 0 else "identity"})
    r = c.getresponse(); h.update(str(r.status).encode() + r.read())
print(h.hexdigest())
S
/usr/bin/python3 client.py
wrk -t2 -c20 -d2 http://127.0.0.1:18480/3 >wrk.out; grep -c 'Non-2xx\|Socket errors' wrk.out || true
kill -HUP "$(cat pid)"; sleep 0.5; /usr/bin/python3 client.py
kill -QUIT "$(cat pid)"; wait $server && echo ended
