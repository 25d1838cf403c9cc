"""The scripts of a shard, in Lua. ``docs/internals/format-shared.md`` describes the keys.

Each script declares all keys that it uses, and all these keys exist once the slice is open. So during the migration of
a slot, a server can detect that a key is missing and report it, instead of reporting a key of the set as new. Scripts
check everything before they write anything, so a script that fails has changed nothing.
"""

from __future__ import annotations

import hashlib

# KEYS: state, watched, the slice.  ARGV: set, slices before, packed geometry, bytes, keys to watch.
OPEN = """
local head = redis.call('HMGET', KEYS[1], 'set', 'slices')
if head[1] and head[1] ~= ARGV[1] then return {4} end
local slices = head[2] or ''
local n = #slices / 32
if n % 1 ~= 0 or (head[1] and n == 0) then return {2} end
if n == tonumber(ARGV[2]) then
  redis.call('SETRANGE', KEYS[3], tonumber(ARGV[4]) - 1, '\\0')
  n = n + 1
  redis.call('HSET', KEYS[1], 'set', ARGV[1], 'slices', slices .. ARGV[3], 'n:' .. n, 0)
  if n == 1 then
    redis.call('HSET', KEYS[1], 'most', ARGV[5], 'level', 0, 'watched', 0, 'wrong', 0)
    redis.call('HSET', KEYS[2], '', '')
  end
end
return {0, n}
"""

# KEYS: state.  ARGV: set, producer, session.
BEGIN = """
local head = redis.call('HMGET', KEYS[1], 'set', 'slices', 'c:' .. ARGV[2], 'p:' .. ARGV[2])
if not head[1] then return {2} end
if head[1] ~= ARGV[1] then return {4} end
if not head[2] or #head[2] % 32 ~= 0 then return {2} end
local now = tonumber(redis.call('TIME')[1])
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'r:' and #all[i + 1] < 24 then return {2} end
  if string.sub(all[i], 1, 2) == 'r:' and struct.unpack('<I8', all[i + 1], 17) < now - 86400 then
    local name = string.sub(all[i], 3)
    redis.call('HDEL', KEYS[1], 'r:' .. name, 'p:' .. name, 'c:' .. name)
    if name == ARGV[2] then head[3], head[4] = false, false end
  end
end
local claims = (head[3] or '') .. (head[4] or '')
redis.call('HSET', KEYS[1], 'r:' .. ARGV[2], ARGV[3] .. struct.pack('<I8I8', 0, now))
redis.call('HDEL', KEYS[1], 'p:' .. ARGV[2])
if claims ~= '' then redis.call('HSET', KEYS[1], 'c:' .. ARGV[2], claims) end
return {0, #head[2] / 32, claims}
"""

# KEYS: state, watched, the slices.  ARGV: set, producer, session, number, records, 1 to keep new keys.
ADD = """
local head = redis.call('HMGET', KEYS[1], 'set', 'slices', 'r:' .. ARGV[2], 'most', 'level', 'watched', 'wrong')
if not head[1] then return {2} end
if head[1] ~= ARGV[1] then return {4} end
if not head[2] or #head[2] % 32 ~= 0 or (head[3] and #head[3] < 24) then return {2} end
local n = #head[2] / 32
if #KEYS ~= n + 2 then return {1, n} end
local number, before = tonumber(ARGV[4]), -1
if number > 0 and head[3] then
  before = struct.unpack('<I8', head[3], 9)
  if string.sub(head[3], 1, 8) ~= ARGV[3] or before > number then return {3} end
  if before == number then return {0, n, -2, string.sub(head[3], 25)} end
end
local two, first, whole, room = {}, {}, {}, 0
for s = 1, n do
  local hashes, begins, blocks, all, capacity = struct.unpack('<I4I4I4I4I8', head[2], s * 32 - 31)
  if redis.call('STRLEN', KEYS[s + 2]) ~= blocks * 64 then return {2} end
  two[s], first[s], whole[s] = hashes == 16, begins, all
  if s == n then
    local held = tonumber(redis.call('HGET', KEYS[1], 'n:' .. n))
    if not held then return {2} end
    room = capacity - held
  end
end
if redis.call('EXISTS', KEYS[2]) == 0 then return {2} end
local most, level = tonumber(head[4]), tonumber(head[5])
local watched, wrong = tonumber(head[6]), tonumber(head[7])
if not (most and level and watched and wrong) then return {2} end
local limit = 2 ^ (16 - level)
local byte, sub, char, floor, unpack_struct = string.byte, string.sub, string.char, math.floor, struct.unpack
local call, records = redis.call, ARGV[5]
-- Arithmetic is cheaper here than calls of bit: of a byte, bit k is set if its rest by 2^(k+1) is 2^k at least.
local low_of = {[0] = 1, 2, 4, 8, 16, 32, 64, 128}
local lanes = {}

local function mark_of(digest)
  local a, b, c, d = unpack_struct('<I2I2I2I2', digest, 9)
  return floor(d / 4096) * 4096 + floor(c / 4096) * 256 + floor(b / 4096) * 16 + floor(a / 4096)
end

local function covers(block, double)
  local at = lanes[1] % 64
  local power = low_of[at % 8]
  if byte(block, (at - at % 8) / 8 + 1) % (2 * power) < power then return false end
  local bytes = {byte(block, 1, 64)}
  for w = 1, 8 do
    local lane = lanes[w]
    at = lane % 64
    power = low_of[at % 8]
    if bytes[w * 8 - 7 + (at - at % 8) / 8] % (2 * power) < power then return false end
    if double then
      at = (lane - at) / 64 % 64
      power = low_of[at % 8]
      if bytes[w * 8 - 7 + (at - at % 8) / 8] % (2 * power) < power then return false end
    end
  end
  return true
end

local function with(block, double)
  local bytes = {byte(block, 1, 64)}
  for w = 1, 8 do
    local lane = lanes[w]
    local at = lane % 64
    local i, power = w * 8 - 7 + (at - at % 8) / 8, low_of[at % 8]
    if bytes[i] % (2 * power) < power then bytes[i] = bytes[i] + power end
    if double then
      at = (lane - at) / 64 % 64
      i, power = w * 8 - 7 + (at - at % 8) / 8, low_of[at % 8]
      if bytes[i] % (2 * power) < power then bytes[i] = bytes[i] + power end
    end
  end
  return char(unpack(bytes))
end

local answers, kept, added = {}, {}, 0
for at = 1, #records, 20 do
  local low, high, l1, l2, l3, l4, l5, l6, l7, l8 = unpack_struct('<I2I2I2I2I2I2I2I2I2I2', records, at)
  lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7], lanes[8] = l1, l2, l3, l4, l5, l6, l7, l8
  local found, newest, begins = false, nil, 0
  for s = n, 1, -1 do
    -- The product has up to 64 bits, a number of Lua 53: so it is made of two halves.
    local place = (floor((high * whole[s] + floor(low * whole[s] / 65536)) / 65536) - first[s]) * 64
    local block = call('GETRANGE', KEYS[s + 2], place, place + 63)
    if s == n then newest, begins = block, place end
    if covers(block, two[s]) then
      found = true
      break
    end
  end
  if number > 0 then
    if not found then
      if room <= 0 then break end
      room, added = room - 1, added + 1
      call('SETRANGE', KEYS[n + 2], begins, with(newest, two[n]))
      kept[added] = sub(records, at + 4, at + 19)
    end
    -- The first lane in the mark is the last of the digest: while few are watched, it says no for nearly all.
    if l8 - l8 % 4096 < limit and watched <= most and mark_of(sub(records, at + 4, at + 19)) < limit
        and call('HSETNX', KEYS[2], sub(records, at + 4, at + 19), found and '1' or '0') == 1 then
      watched = watched + 1
      if found then wrong = wrong + 1 end
      while watched > most and level < 16 do
        level = level + 1
        limit = 2 ^ (16 - level)
        local all = call('HGETALL', KEYS[2])
        for i = 1, #all, 2 do
          if all[i] ~= '' and mark_of(all[i]) >= limit then
            call('HDEL', KEYS[2], all[i])
            watched = watched - 1
            if all[i + 1] == '1' then wrong = wrong - 1 end
          end
        end
      end
    end
  end
  answers[#answers + 1] = found and '\\0' or '\\1'
end
local said = table.concat(answers)
if number > 0 and said ~= '' then
  local entry = ARGV[3] .. struct.pack('<I8I8', number, tonumber(call('TIME')[1])) .. said
  call('HSET', KEYS[1], 'r:' .. ARGV[2], entry, 'level', level, 'watched', watched, 'wrong', wrong)
  call('HINCRBY', KEYS[1], 'n:' .. n, added)
  if ARGV[6] == '1' then call('HSET', KEYS[1], 'p:' .. ARGV[2], table.concat(kept)) end
end
return {0, n, before, said}
"""

# KEYS: state.  ARGV: set, producer, session, 1 if the producer is named.
END = """
local head = redis.call('HMGET', KEYS[1], 'set', 'slices', 'r:' .. ARGV[2])
if not head[1] or not head[2] then return {2} end
if head[1] ~= ARGV[1] then return {4} end
if head[3] and string.sub(head[3], 1, 8) == ARGV[3] then
  redis.call('HDEL', KEYS[1], 'p:' .. ARGV[2], 'c:' .. ARGV[2])
  if ARGV[4] == '1' then
    -- An earlier session of that name may live: it must learn that it was replaced.
    local now = struct.pack('<I8', tonumber(redis.call('TIME')[1]))
    redis.call('HSET', KEYS[1], 'r:' .. ARGV[2], string.sub(head[3], 1, 16) .. now)
  else
    redis.call('HDEL', KEYS[1], 'r:' .. ARGV[2])
  end
end
return {0, #head[2] / 32}
"""

# KEYS: state, watched, the slices.  ARGV: set, bytes to sample, where.
FIGURES = """
local head = redis.call('HMGET', KEYS[1], 'set', 'slices', 'watched', 'wrong')
if not head[1] then return {2} end
if head[1] ~= ARGV[1] then return {4} end
local watched, wrong = tonumber(head[3]), tonumber(head[4])
if not (watched and wrong and head[2]) or #head[2] % 32 ~= 0 then return {2} end
local n = #head[2] / 32
if #KEYS ~= n + 2 then return {1, n} end
if redis.call('EXISTS', KEYS[2]) == 0 then return {2} end
local parts = {}
for s = 1, n do
  local blocks = struct.unpack('<I4', head[2], s * 32 - 23)
  if redis.call('STRLEN', KEYS[s + 2]) ~= blocks * 64 then return {2} end
  local held = tonumber(redis.call('HGET', KEYS[1], 'n:' .. s))
  if not held then return {2} end
  local some = math.min(blocks, math.max(1, math.floor(tonumber(ARGV[2]) / 64)))
  local start = math.floor((blocks - some) * tonumber(ARGV[3]) / 65536) * 64
  parts[s] = {
    string.sub(head[2], s * 32 - 31, s * 32), held,
    redis.call('BITCOUNT', KEYS[s + 2]), redis.call('GETRANGE', KEYS[s + 2], start, start + some * 64 - 1)
  }
end
return {0, n, parts, watched, wrong}
"""

HASHES = {script: hashlib.sha1(script.encode()).hexdigest() for script in (OPEN, BEGIN, ADD, END, FIGURES)}
