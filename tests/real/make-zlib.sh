# needs: make gcc curl tar
# configure, make with two jobs, and the project's own tests.
fetch https://static.crates.io/crates/libz-sys/libz-sys-1.1.20.crate libz-sys.crate
tar xzf "$CACHE/libz-sys.crate"
cd libz-sys-1.1.20/src/zlib
t ./configure >configure.out 2>&1 || { cat configure.out; exit 1; }
t make -s -j2 test 2>&1 | grep -i 'test\|error' | sort
sha256sum *.o libz.a example minigzip | sort -k2
