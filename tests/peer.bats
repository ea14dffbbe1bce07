# lxpeer.py was written from lx-stream(5) alone. What it writes lx reads, what lx writes it reads, and both say the same.
load lib

PEER=$ROOT/tests/lxpeer.py
CORPUS=$ROOT/tests/corpus

peer() { "$PY" "$PEER" "$@"; }

# agree FILE: both readers find it complete and print the same canonical form.
agree() {
	peer dump <"$1" >.peer || fail "lxpeer refuses $1"
	canonical "$1" >.lx || fail "lx-cat refuses $1"
	diff .peer .lx >.diff || fail "$1: lxpeer (<) and lx-cat (>) differ: $(head -20 .diff)"
}

# A literal block of the EXAMPLES of lx-stream(5): 1 the bytes, 2 the canonical form.
page_block() {
	awk -v want="$1" '/^\.Sh EXAMPLES/ { on = 1 } on && /^\.Ed/ { block = 0 } block && n == want { print }
		on && /^\.Bd -literal/ { block = 1; n++ }' "$ROOT/man/lx-stream.5"
}

@test "lx-stream(5): the worked example is a stream, its offsets are right, and it holds what the page says" {
	page_block 1 >hex
	"$PY" - <<'END'
import re
stream = b''
for line in open('hex'):
    at, data = re.match('([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)', line).groups()
    assert int(at, 16) == len(stream), line
    stream += bytes.fromhex(data)
open('example.lx', 'wb').write(stream)
END
	(($(wc -l <hex) > 50))
	page_block 2 >want
	peer dump <example.lx | diff want - || fail 'lxpeer reads something else'
	canonical example.lx | diff want - || fail 'lx-cat reads something else'
}

@test "lxpeer exits as the README of the corpus says" {
	"$PY" - "$CORPUS" <<'END'
import re, sys
import lxpeer
usual, rows = dict(lxpeer.LIMITS), 0
for line in open(sys.argv[1] + '/README.md'):
    m = re.match(r'\| (\S+\.lx) \| (\d) \| ([^|]*)\|', line)
    if not m:
        continue
    lxpeer.LIMITS.update(usual, **{k: int(v) for k, v in re.findall(r'--max-(\w+) (\d+)', m[3])})
    got, why = 0, ''
    try:
        lxpeer.Reader().read(open(sys.argv[1] + '/' + m[1], 'rb').read())
    except lxpeer.Bad as e:
        why, got = e.args
    assert got == int(m[2]), (line, got, why)
    rows += 1
assert rows >= 190, rows
END
}

@test "lxpeer and lx-cat read the same out of every good stream" {
	local file
	for file in "$CORPUS"/good-*.lx; do agree "$file"; done
}

@test "lxpeer reads what lx writes, in every packing" {
	local packing
	tree 20 >tree.lx
	for packing in raw checked zstd zstd:9; do
		lx-cat --compress "$packing" <tree.lx >out.lx
		agree out.lx
		[[ $(wc -l <.peer) == $((20 + 20 + 60)) ]]
	done
}

@test "lxpeer refuses what lx wrote when it is cut after any byte" {
	tree 2 >tree.lx
	"$PY" - <<'END'
import lxpeer
whole = open('tree.lx', 'rb').read()
for n in range(len(whole)):
    try:
        lxpeer.Reader().read(whole[:n])
    except lxpeer.Bad as e:
        assert e.args[1] == 3
    else:
        raise AssertionError('accepted when cut after %d bytes' % n)
END
}

@test "lx reads what lxpeer writes, in every packing, with and without hints" {
	local packing hints
	cat >lines <<'END'
{"begin":{"domains":["doc","page"]}}
[1,0,[0],{"path":"a.pdf","n":18446744073709551615,"x":-0.0,"s":{"$str":"/w=="}},"a.pdf"]
[3,1,[0],3,0,null]
{"hint":{}}
[1,1,[0,1],{"data":{"$bin":"AAE="}}]
{"flush":0}
[2,1,[0,2],1,null,null]
[2,1,[0,0],2,{"type":"bad","message":"no","anchor":[0,[0]],"origin":[1,[0,0]],"new":[1]},{"data":""}]
{"end":{}}
{"begin":{"run":"other"}}
[1,0,[7],{"big":123456789012345678901234567890},{"$bin":"QQ=="}]
END
	sed -n '2p;7p;8p;11p;3p;5p' lines | sort >want
	for packing in raw checked zstd; do
		for hints in '' hints; do
			# shellcheck disable=SC2086
			peer make $packing $hints <lines >made.lx
			agree made.lx
			sort .lx | diff want - || fail "$packing $hints: not the lines that went in"
		done
	done
}

@test "lx and lxpeer agree on random values" {
	local seed
	for seed in 1 2 3; do
		"$PY" - "$seed" >made.lx <<'END'
import random, struct, sys
import lxpeer
from lxjson import Ext, Map, Str
r = random.Random(int(sys.argv[1]))
def f64():
    return struct.unpack('>d', r.randbytes(8))[0] if r.random() < .5 else r.choice([1, -1]) * round(r.random(), 3) * 10 ** r.randrange(-30, 30)
def text():
    return ''.join(r.choice(['a', '"', '\\', '\0', '\n', '\x7f', '/', '\u00e9', '\u2028', '\U0001f408']) for _ in range(r.randrange(6)))
def value(depth):
    kind = r.randrange(12 if depth else 9)
    if kind == 0: return r.choice([None, True, False])
    if kind == 1: return r.randrange(-2**63, 2**64)
    if kind == 2: return r.randrange(-300, 300)
    if kind == 3: return f64()
    if kind == 4: return Str(r.randbytes(3) + b'\xff')
    if kind == 5: return r.randbytes(r.randrange(5))
    if kind == 6: return Ext(r.randrange(128), r.choice([b'12345678901234567890123', b'1e999', b'7', b'-', r.randbytes(4)]))
    if kind < 9: return text()
    if kind == 9: return [value(depth - 1) for _ in range(r.randrange(4))]
    return Map({r.choice([text(), 5, '$bin', b'k']): value(depth - 1) for _ in range(r.randrange(4))}.items())
w = lxpeer.Writer(r.choice(['raw', 'checked', 'zstd']), True)
for i in range(300):
    w.record([1, 0, [r.randrange(50)], Map([('v', value(4))]), value(1)])
    if r.random() < .1:
        w.flush()
sys.stdout.buffer.write(w.finish())
END
		agree made.lx
		[[ $(wc -l <.lx) == 300 ]]
		lx-cat --compress checked <made.lx >copy.lx
		agree copy.lx
	done
}

@test "a stage keeps what lxpeer wrote byte for byte" {
	local packing
	zstd -dcq "$CORPUS/good-values.lx" "$CORPUS/good-long-forms.lx" >want
	for packing in raw zstd; do
		lx-cat --compress "$packing" "$CORPUS/good-values.lx" "$CORPUS/good-long-forms.lx" >out.lx
		zstd -dcq <out.lx >got
		cmp want got
	done
}

@test "an lx pipeline gathers what lxpeer expanded" {
	printf '%s\n' '{"begin":{"domains":["doc","page"],"ops":[{"tool":"peer","domain":0,"writes":["path"]},{"tool":"peer","domain":1,"writes":["n"]}]}}' \
		'[1,1,[1,1],{"n":3}]' '[1,1,[0,1],{"n":1}]' '[1,1,[0,0],{"n":0}]' '[3,1,[1],2,0,null]' \
		'[1,0,[0],{"path":"a"},"a"]' '[3,1,[0],2,0,null]' '[1,0,[1],{"path":"b"},"b"]' '[1,1,[1,0],{"n":2}]' |
		peer make checked >in.lx
	lx-gather -d page <in.lx >out.lx
	agree out.lx
	printf '%s\n' '[1,0,[0],{"path":"a","page":[{"ordinal":0,"n":0},{"ordinal":1,"n":1}]},"a"]' \
		'[1,0,[1],{"path":"b","page":[{"ordinal":0,"n":2},{"ordinal":1,"n":3}]},"b"]' | diff - .peer
}

@test "stock msgpack and zstd see the records of an lx stream" {
	tree 3 >tree.lx
	zstd -dcq <tree.lx >records
	"$PY" -c '
import msgpack
records = list(msgpack.Unpacker(open("records", "rb")))
assert len(records) == 3 + 3 + 9 and sorted({r[0] for r in records}) == [1, 3], records'
}
