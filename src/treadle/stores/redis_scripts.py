"""What the Redis store has its server do: each script is one step that nothing comes between.

Under a prefix stand `head:ID` (a hash), `log:ID` (a list of batches, the first is revision 1),
`holds:ID` (the digests that a conversation names), `runs_of:ID`, and for all conversations `runs`,
`by_time`, `by_status:STATUS` and `blob:DIGEST` (content and how many hold it). An ID is the end of
its key, so no two meet.
"""

from __future__ import annotations

_SHARED = """
local P, id = ARGV[1], ARGV[2]

local function key(kind, name)
  return P .. kind .. ':' .. (name or id)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function digits(number)
  return string.format('%.0f', number)
end

local function head(name)
  return redis.call('HGETALL', key('head', name))
end

local function place(name, at, status, before)
  redis.call('ZADD', P .. 'by_time', digits(-at), name)
  if before and before ~= status then
    redis.call('ZREM', P .. 'by_status:' .. before, name)
  end
  redis.call('ZADD', P .. 'by_status:' .. status, digits(-at), name)
end

local function begin(name, at, reader)
  redis.call('HSET', key('head', name), 'id', name, 'revision', '0', 'status', 'new',
    'pending', '0', 'created_at', digits(at), 'updated_at', digits(at), 'fence', '0',
    'reader', reader)
  place(name, at, 'new')
end

local function hold(digest, content)
  if redis.call('SADD', key('holds'), digest) == 1 then
    redis.call('HINCRBY', P .. 'blob:' .. digest, 'holders', 1)
    redis.call('HSETNX', P .. 'blob:' .. digest, 'content', content)
  end
end
"""

# A batch stands in ARGV from 7 on: expected revision, status, run, pending, ends, batch, how many
# runs, when the conversation began, which reader it takes, these runs, then digests and contents.
_BATCH = """
local function written(revision)
  return revision and tonumber(revision) > tonumber(ARGV[7])
    and redis.call('LINDEX', key('log'), ARGV[7]) == ARGV[12]
end

local function begun_before()
  for i = 16, 15 + ARGV[13] do
    if redis.call('HEXISTS', P .. 'runs', ARGV[i]) == 1 then
      return ARGV[i]
    end
  end
end

local function write(at, before)
  for i = 16, 15 + ARGV[13] do
    redis.call('HSET', P .. 'runs', ARGV[i], id)
    redis.call('SADD', key('runs_of'), ARGV[i])
  end
  for i = 16 + ARGV[13], #ARGV, 2 do
    hold(ARGV[i], ARGV[i + 1])
  end
  redis.call('RPUSH', key('log'), ARGV[12])
  local status = ARGV[8] ~= '' and ARGV[8] or before
  redis.call('HSET', key('head'), 'revision', digits(ARGV[7] + 1), 'status', status,
    'updated_at', digits(at))
  if ARGV[9] ~= '' then
    redis.call('HSET', key('head'), 'run_id', ARGV[9])
  end
  if ARGV[10] ~= '0' then
    redis.call('HINCRBY', key('head'), 'pending', ARGV[10])
  end
  if ARGV[11] == '1' then
    redis.call('HDEL', key('head'), 'owner', 'expires_at')
  end
  if tonumber(redis.call('HGET', key('head'), 'reader')) < tonumber(ARGV[15]) then
    redis.call('HSET', key('head'), 'reader', ARGV[15])
  end
  place(id, at, status, before)
end
"""

SCHEMA = """
redis.call('SETNX', P .. 'schema', ARGV[3])
return redis.call('GET', P .. 'schema')
"""

CREATE = """
if redis.call('EXISTS', key('head')) == 0 then
  begin(id, now(), ARGV[3])
end
return head()
"""

# ARGV: 3 fence, 4 anybody, 5 reader, 6 in doubt, 7 and on the batch.
APPEND = """
local old = redis.call('HMGET', key('head'), 'revision', 'status', 'fence', 'owner', 'reader')
if not old[1] then
  return {'gone'}
end
if ARGV[6] == '1' and written(old[1]) then
  return {'done'}
end
local owned = old[4] and old[3] == ARGV[3]
if old[1] ~= ARGV[7] or tonumber(old[5]) > tonumber(ARGV[5])
    or not (ARGV[4] == '1' or owned) then
  return {'refused', digits(now()), head()}
end
local begun = begun_before()
if begun then
  return {'run', begun}
end
write(now(), old[2])
return {'done'}
"""

# ARGV: 3 owner, 4 microseconds, 5 reader, 6 in doubt, 7 and on the batch; 14 when it began.
ENTER = """
local at, since = now(), ARGV[14]
local old = redis.call('HMGET', key('head'), 'revision', 'status', 'owner', 'expires_at', 'reader',
  'created_at')
if ARGV[6] == '1' and old[3] == ARGV[3] and written(old[1]) then
  return {'done', digits(at), head()}
end
local alive = old[3] and tonumber(old[4]) > at
if alive or (old[1] or '0') ~= ARGV[7] or (old[5] and tonumber(old[5]) > tonumber(ARGV[5]))
    or (since ~= '' and since ~= old[6]) then
  return {'refused', digits(at), head()}
end
local begun = begun_before()
if begun then
  return {'run', begun}
end
if not old[1] then
  begin(id, at, 1)
end
redis.call('HINCRBY', key('head'), 'fence', 1)
redis.call('HSET', key('head'), 'owner', ARGV[3], 'expires_at', digits(at + tonumber(ARGV[4])))
write(at, old[2] or 'new')
return {'done', digits(at), head()}
"""

HEAD = """
return head()
"""

FIND = """
return redis.call('HGET', P .. 'runs', ARGV[3])
"""

# ARGV: 3 and on IDs.
REVISIONS = """
local found = {}
for i = 3, #ARGV do
  found[i - 2] = redis.call('HGET', key('head', ARGV[i]), 'revision')
end
return found
"""

READ = """
local reader = redis.call('HGET', key('head'), 'reader')
if not reader then
  return {}
end
return {reader, redis.call('LRANGE', key('log'), ARGV[3], ARGV[4])}
"""

# ARGV: 3 the key, 4 the lowest score, 5 how many to pass over, 6 how many.
LIST = """
local found = {}
local names = redis.call('ZRANGEBYSCORE', P .. ARGV[3], ARGV[4], '+inf', 'LIMIT', ARGV[5], ARGV[6])
for i, name in ipairs(names) do
  found[i] = head(name)
end
return found
"""

# ARGV: 3 the copy, 4 revision, 5 when the original began, 6 status, 7 run, 8 pending,
# 9 reader.
FORK = """
local copy, at = ARGV[3], now()
if redis.call('HGET', key('head'), 'created_at') ~= ARGV[5] then
  return {'again'}
end
if redis.call('EXISTS', key('head', copy)) == 1 then
  return {'taken'}
end
begin(copy, at, ARGV[9])
redis.call('HSET', key('head', copy), 'revision', ARGV[4], 'status', ARGV[6], 'pending', ARGV[8])
if ARGV[7] ~= '' then
  redis.call('HSET', key('head', copy), 'run_id', ARGV[7])
end
place(copy, at, ARGV[6], 'new')
if ARGV[4] ~= '0' then
  redis.call('COPY', key('log'), key('log', copy))
  redis.call('LTRIM', key('log', copy), 0, tonumber(ARGV[4]) - 1)
end
for _, digest in ipairs(redis.call('SMEMBERS', key('holds'))) do
  redis.call('SADD', key('holds', copy), digest)
  redis.call('HINCRBY', P .. 'blob:' .. digest, 'holders', 1)
end
return {'done', head(copy)}
"""

DELETE = """
local status = redis.call('HGET', key('head'), 'status')
if not status then
  return 0
end
for _, digest in ipairs(redis.call('SMEMBERS', key('holds'))) do
  if redis.call('HINCRBY', P .. 'blob:' .. digest, 'holders', -1) <= 0 then
    redis.call('UNLINK', P .. 'blob:' .. digest)
  end
end
for _, run in ipairs(redis.call('SMEMBERS', key('runs_of'))) do
  redis.call('HDEL', P .. 'runs', run)
end
redis.call('ZREM', P .. 'by_time', id)
redis.call('ZREM', P .. 'by_status:' .. status, id)
redis.call('UNLINK', key('head'), key('log'), key('holds'), key('runs_of'))
return 1
"""

# ARGV: 3 owner, 4 microseconds, 5 instead of which fence, 6 reader.
CLAIM = """
local at = now()
if redis.call('EXISTS', key('head')) == 0 then
  begin(id, at, 1)
end
local old = redis.call('HMGET', key('head'), 'owner', 'expires_at', 'fence', 'reader')
local alive = old[1] and tonumber(old[2]) > at and old[3] ~= ARGV[5]
if alive or tonumber(old[4]) > tonumber(ARGV[6]) then
  return {'refused', digits(at), head()}
end
redis.call('HINCRBY', key('head'), 'fence', 1)
redis.call('HSET', key('head'), 'owner', ARGV[3], 'expires_at', digits(at + tonumber(ARGV[4])))
return {'done', digits(at), head()}
"""

# ARGV: 3 fence, 4 microseconds; a lease without any is let go.
KEEP = """
local old = redis.call('HMGET', key('head'), 'owner', 'fence')
if old[1] and old[2] == ARGV[3] then
  if ARGV[4] == '' then
    redis.call('HDEL', key('head'), 'owner', 'expires_at')
  else
    redis.call('HSET', key('head'), 'expires_at', digits(now() + tonumber(ARGV[4])))
  end
  return {'done', head()}
end
return {'refused', head()}
"""

PUT = """
if redis.call('EXISTS', key('head')) == 0 then
  return 0
end
hold(ARGV[3], ARGV[4])
return 1
"""

# ARGV: 3 and on digests.
GET = """
local found = {}
for i = 3, #ARGV do
  found[i - 2] = redis.call('SISMEMBER', key('holds'), ARGV[i]) == 1
    and redis.call('HGET', P .. 'blob:' .. ARGV[i], 'content')
end
return found
"""

SCRIPTS = {
    name: _SHARED + text
    for name, text in {
        "schema": SCHEMA,
        "create": CREATE,
        "append": _BATCH + APPEND,
        "enter": _BATCH + ENTER,
        "head": HEAD,
        "find": FIND,
        "revisions": REVISIONS,
        "read": READ,
        "list": LIST,
        "fork": FORK,
        "delete": DELETE,
        "claim": CLAIM,
        "keep": KEEP,
        "put": PUT,
        "get": GET,
    }.items()
}
"""The scripts by name. ARGV is the prefix, an ID, and what is said above each."""
