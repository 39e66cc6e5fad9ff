-- Work for the Lua interpreter. Mixes differ in what they do, so that training and reference can differ.
local sum = 0
for round = 1, tonumber(rounds) do
  local seed, list = 42 + round, {}
  for i = 1, 3000 do
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    list[i] = mix == "0" and seed or tostring(seed)
  end
  table.sort(list)
  if mix == "0" then
    local text = table.concat(list, ",")
    for word in text:gmatch("(%d+),") do sum = sum + #word end
  else
    local known = {}
    for _, word in ipairs(list) do known[word:sub(1, 3)] = (known[word:sub(1, 3)] or 0) + 1 end
    for _, times in pairs(known) do sum = sum + times * times end
  end
  local make = function(step) return function(x) return x + step end end
  local add = make(round)
  for _ = 1, 20000 do sum = add(sum) & 0xffffffff end
  local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
  sum = sum + fib(mix == "0" and 16 or 15)
end
print(sum)
