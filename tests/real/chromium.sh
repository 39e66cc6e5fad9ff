# needs: chromium
# packages: chromium
# A browser of many processes with a JIT and a sandbox of its own; its picture of a page.
cat >p.html <<'S'
<body style="background:#fff"><canvas id=c width=200 height=100></canvas><p id=p></p><script>
let s = 0; for (let i = 0; i < 3e6; i++) s = (s * 31 + i) | 0; p.textContent = s;
const g = c.getContext('2d'); for (let i = 0; i < 50; i++) { g.fillStyle = `hsl(${i * 7},80%,50%)`; g.fillRect(i * 4, i, 4, 100 - i * 2) }</script>
S
t chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$PWD/u" --window-size=400,300 --screenshot="$PWD/p.png" "file://$PWD/p.html" >/dev/null 2>err || echo "status $?"
sha256sum p.png; t chromium --headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$PWD/u2" --dump-dom "file://$PWD/p.html" 2>/dev/null | grep -o '<p id=.*</p>'
