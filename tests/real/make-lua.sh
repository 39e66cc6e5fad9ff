# needs: make gcc curl tar
# A C project built by make with two jobs: what is built, to the byte, and what it then does.
fetch http://deb.debian.org/debian/pool/main/l/lua5.4/lua5.4_5.4.4.orig.tar.gz lua.tgz
tar xzf "$CACHE/lua.tgz"
cd lua-5.4.4
t make -s -j2 linux >make.out 2>&1 || { cat make.out; exit 1; }
sha256sum src/*.o src/liblua.a src/lua src/luac | sort -k2
t ./src/lua -e 'local t = {} for i = 1, 20000 do t[#t + 1] = tostring(i * 7 % 1013) end table.sort(t) print(table.concat(t, ",", 1, 40))'
