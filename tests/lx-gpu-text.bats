load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	REF=$ROOT/tests/text_reference.py
}

@test "lx-gpu: text ops on every kind of text are what an independent program says" {
	"$PY" "$REF" make .
	mapfile -t files <list
	"$PY" "$REF" answers "${files[@]}" >want
	lx-in --read -d page <list | lx-batch -n 9 >in.lx
	lx-gpu -q -o odd minhash:7:1 <in.lx | lx-gpu -q minhash:24:3:8 simhash | lx-gpu -q -o simhash2 --drop data simhash:2 |
		lx-out -q --failures bad --max-failed 100% >got
	"$PY" - <<'END'
import json
want = {d['name']: d for d in map(json.loads, open('want'))}
got = {d['path']: d for d in map(json.loads, open('got'))}
bad = {d['path']: d['lx']['cause']['type'] for d in map(json.loads, open('bad'))}
assert set(got) | set(bad) == set(want) and len(want) > 100
assert set(bad) == {n for n, w in want.items() if 'bad' in w} and len(bad) > 20, set(bad) ^ {n for n, w in want.items() if 'bad' in w}
assert set(bad.values()) == {'bad-text'}
for n, g in got.items():
    w = want[n]
    assert g['odd'] == w['odd'], (n, 'odd')
    assert g['minhash'] == {'signature': w['signature'], 'bands': w['bands']}, (n, 'minhash')
    assert g['simhash'] == w['simhash'] and g['simhash2'] == w['simhash2'], (n, 'simhash')
END
}

@test "lx-gpu: the share of equal numbers in two minhash signatures is their similarity, as closely as can be expected" {
	"$PY" "$REF" pairs 300 | lx-in --jsonl -d page | lx-gpu -q --drop data minhash:128:3 | lx-out -q >out
	"$PY" - <<'END'
import json
by = {}
for d in map(json.loads, open('out')):
    by.setdefault(d['pair'], []).append(d)
z = []
for a, b in by.values():
    j = a['true']
    if 0.05 < j < 0.95:
        estimate = sum(x == y for x, y in zip(a['minhash'], b['minhash'])) / 128
        z.append((estimate - j) / (j * (1 - j) / 128) ** 0.5)
n = len(z)
mean, spread = sum(z) / n, (sum(v * v for v in z) / n) ** 0.5
# of n independent estimates: the mean of z within 4 / sqrt(n), its spread near 1; the texts are always the same
assert n > 200 and abs(mean) < 4 / n ** 0.5 and 0.8 < spread < 1.2, (n, mean, spread)
END
}

@test "lx-gpu: threads, framing and device memory change nothing about texts" {
	"$PY" "$REF" make .
	local ops=(--drop data minhash:128:3:32 simhash)
	lx-in --run r --read -d page <list >in.lx
	lx-gpu -q -j 1 "${ops[@]}" <in.lx >one.lx
	lx-batch -n 1 <in.lx | lx-gpu -q -j 4 "${ops[@]}" >many.lx
	same_stream one.lx many.lx
	lx-batch -q -n 8 -j 2 -- lx-gpu -q -j 1 "${ops[@]}" <in.lx >workers.lx
	same_stream one.lx workers.lx
	grep -v huge list | lx-in --run r --read -d page >small.lx
	lx-gpu -q "${ops[@]}" <small.lx >one.lx
	lx-gpu -q -j 2 --device-mem 2M "${ops[@]}" <small.lx >pieces.lx
	same_stream one.lx pieces.lx
}

@test "lx-gpu: text ops refuse wrong arguments and images beside them" {
	printf '{"data":"a b c"}\n' | lx-in --jsonl -d page >in.lx
	exits 2 lx-gpu minhash:0 <in.lx && says 'minhash[:PERMS'
	exits 2 lx-gpu minhash:8:2:3 <in.lx && says 'bands'
	exits 2 lx-gpu minhash:8:2:4:1 <in.lx && says "'1' is too much"
	exits 2 lx-gpu minhash:x <in.lx && says "'x'"
	exits 2 lx-gpu simhash:0 <in.lx && says 'simhash[:SHINGLE]'
	exits 2 lx-gpu minhash dhash <in.lx && says 'two lx-gpu'
	lx-gpu -q minhash:4 simhash <in.lx | lx-out -q >out
	[[ $(jq -c '.minhash | length' out) == 4 ]]
	exits 2 lx-gpu minhash:8: <in.lx && says "'' is not a whole number"
	exits 2 lx-gpu "minhash:$(printf '0%.0s' {1..80})8" <in.lx && says "000...' is not a whole number"
}

@test "lx-gpu: what is not UTF-8 is said, where, and by which op" {
	local text i=0
	for text in '\xff' 'a\xff' 'abcdefghijklmnopq\xc3' '\xe4\xb8' 'four byte \xf0\x9f\x92' 'twelve bytes\x80' 'over\xc0\xaf' 'half\xed\xa0\x80' \
		'fine \xe4\xb8\xad fine' 'bad behind \xe4\xb8\xad \xe4\xb8\x41'; do
		printf "$text" >"t$i"
		echo "t$i"
		i=$((i + 1))
	done | lx-in --run r --read -d page >in.lx
	lx-gpu -q minhash:4 simhash <in.lx | lx-out -q --failures bad --max-failed 100% >out
	[[ $(jq -r .path out) == t8 ]] || fail "$(<out)"
	[[ $(jq -r '"\(.path) \(.lx.cause.type) \(.lx.cause.message)"' bad | sort) == 't0 bad-text not UTF-8 at byte 0 (minhash)
t1 bad-text not UTF-8 at byte 1 (minhash)
t2 bad-text not UTF-8 at byte 17 (minhash)
t3 bad-text not UTF-8 at byte 0 (minhash)
t4 bad-text not UTF-8 at byte 10 (minhash)
t5 bad-text not UTF-8 at byte 12 (minhash)
t6 bad-text not UTF-8 at byte 4 (minhash)
t7 bad-text not UTF-8 at byte 4 (minhash)
t9 bad-text not UTF-8 at byte 15 (minhash)' ]] || fail "$(<bad)"
}

@test "lx-gpu: an item that is bad itself fails, whatever became of its siblings; those that are fine do not count any more" {
	printf 'good\nb\xffd\nfine\n\xff\n' >mixed
	printf 'other\n' >other
	printf 'mixed\nother\n' | lx-in --run r --read -d doc | lx-expand -d line -s lines | lx-batch -n 8 |
		lx-gpu -q --device cpu minhash:1 | lx-cat --canonical >out
	jq -c 'select(.[1] == 1 and .[0] < 3) | [.[2], .[0], (if .[0] == 2 then .[3], .[4].message else empty end)]' out >got
	diff got - <<'END'
[[0,0],1]
[[0,1],2,2,"not UTF-8 at byte 1 (minhash)"]
[[0,2],2,3,"not UTF-8 at byte 1 (minhash)"]
[[0,3],2,2,"not UTF-8 at byte 0 (minhash)"]
[[1,0],1]
END
}
