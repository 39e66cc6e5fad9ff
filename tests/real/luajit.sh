# needs: luajit
# packages: luajit
# A JIT that flips its pages between writable and executable.
cat >a.lua <<'S'
local s = 0 for i = 1, 3e6 do s = (s * 31 + i) % 1000003 end print(s)
local t = {} for i = 1, 2e5 do t[i % 1009 + 1] = (t[i % 1009 + 1] or 0) + i end print(t[17])
local ffi = require('ffi') ffi.cdef 'int abs(int); typedef int (*cmp)(const int *, const int *); void qsort(int *, size_t, size_t, cmp);'
local n = 0 for i = 1, 2e5 do n = n + ffi.C.abs(-i % 7) end print(n)
local a = ffi.new('int[300]') for i = 0, 299 do a[i] = i * 7919 % 1009 end
ffi.C.qsort(a, 300, 4, ffi.cast('cmp', function(x, y) return x[0] - y[0] end)) print(a[0], a[150], a[299])
for k = 1, 200 do local f = loadstring('local x = 0 for i = 1, 300 do x = x + i * ' .. k .. ' end return x') n = n + f() end print(n)
local parts = {} for i = 1, 5e4 do parts[#parts + 1] = string.format('%d:%s', i, ('x'):rep(i % 5)) end print(#table.concat(parts))
S
t luajit a.lua; t luajit -joff a.lua | md5sum; t luajit -O3 -Ohotloop=2 a.lua | md5sum
