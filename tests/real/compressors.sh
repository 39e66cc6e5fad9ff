# needs: xz zstd pigz sha256sum
# Compressors with two threads, there and back.
cat "$CORPUS/text4m.txt" >t
t xz -T2 --block-size=500000 -4 -k -c t >t.xz; sha256sum <t.xz; t xz -T2 -dc t.xz | cmp - t
t zstd -q -T2 -12 -k -c t >t.zst; t zstd -q -dc t.zst | cmp - t
t pigz -p 2 -n -c t >t.gz; sha256sum <t.gz; t pigz -p 2 -dc t.gz | cmp - t
echo done
