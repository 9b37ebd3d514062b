-- Does `a` come before `b`, byte by byte? Lua's own order of strings follows the locale.
local function bytes_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Up to `limit` members with scores between `low` and `high`, after (`score`, `member`) unless `score` is false; and
-- whether more are left. Where that member is gone its place is found by halving, so nothing is skipped or repeated.
local function page_after(zset, low, high, score, member, limit)
  local from = redis.call('ZCARD', zset) - redis.call('ZCOUNT', zset, low, '+inf')
  if score then
    local lowest = from
    from = redis.call('ZCOUNT', zset, '-inf', table.concat({ '(', score }))
    local upto = from + redis.call('ZCOUNT', zset, score, score)
    while from < upto do
      local middle = math.floor((from + upto) / 2)
      local there = redis.call('ZRANGE', zset, middle, middle)[1]
      if bytes_before(member, there) then upto = middle else from = middle + 1 end
    end
    from = math.max(from, lowest)
  end
  local upto = redis.call('ZCOUNT', zset, '-inf', high)
  local last = math.min(from + limit, upto)
  if from >= last then return {}, false end
  return redis.call('ZRANGE', zset, from, last - 1, 'WITHSCORES'), last < upto
end

-- Two pages in one order, by score and then member, up to `limit` of them.
local function merge_pages(a, b, limit)
  local merged, i, j = {}, 1, 1
  while #merged < 2 * limit and (i <= #a or j <= #b) do
    local x, y = tonumber(a[i + 1]), tonumber(b[j + 1])
    local from_a = x and (not y or x < y or (x == y and bytes_before(a[i], b[j])))
    local list, at = a, i
    if not from_a then list, at = b, j end
    merged[#merged + 1] = list[at]
    merged[#merged + 1] = list[at + 1]
    if from_a then i = i + 2 else j = j + 2 end
  end
  return merged
end
