# needs: make gcc curl tar
# configure, make with two jobs, and the project's own tests.
fetch http://deb.debian.org/debian/pool/main/z/zlib/zlib_1.2.13.dfsg.orig.tar.bz2 zlib.tar.bz2
tar xjf "$CACHE/zlib.tar.bz2"
cd zlib-1.2.13*
t ./configure >configure.out 2>&1 || { cat configure.out; exit 1; }
t make -s -j2 test 2>&1 | grep -i 'test\|error' | sort
sha256sum *.o libz.a example minigzip | sort -k2
