# lx-cat: streams are joined, printed, packed anew and cut into parts without anything being lost or invented.
load lib

CORPUS=$ROOT/tests/corpus

# A stream with open domains, every outcome and causes.
outcomes() { cp "$CORPUS/good-outcomes.lx" "$1"; }

# numbers FILE FROM TO [OPTIONS]: lines as items of run r.
numbers() {
	seq "$2" "$3" | lx-in --run r --lines --first $(($2 - 1)) "${@:4}" >"$1"
}

packing() { lx-cat --json "$1" | head -1 | jq -r .begin.packing; }

# ---- a stream from streams ----

@test "lx-cat: copies a stream, whatever it holds" {
	local f
	for f in "$CORPUS"/good-*.lx; do
		lx-cat "$f" >copy.lx || fail "exit $?: $f"
		same_stream "$f" copy.lx
		lx-cat --verify <"$f" | cat >copy.lx
		same_stream "$f" copy.lx
	done
}

@test "lx-cat: the peer reads what it writes" {
	local f
	for f in "$CORPUS"/good-*.lx; do
		lx-cat --compress checked "$f" >"copy.${f##*/}"
	done
	"$PY" - "$CORPUS"/good-*.lx <<-'END'
		import sys, lxpeer
		def dump(path):
		    reader = lxpeer.Reader()
		    reader.read(open(path, 'rb').read())
		    return lxpeer.canonical(reader.records)
		for path in sys.argv[1:]:
		    assert dump(path) == dump('copy.' + path.split('/')[-1]), path
	END
}

@test "lx-cat: makes one segment of the segments of a run, of each run its own" {
	numbers a.lx 1 3
	numbers b.lx 4 6
	seq 7 9 | lx-in --run other --lines >c.lx
	lx-cat a.lx - c.lx <b.lx >all.lx
	lx-cat --json all.lx | jq -c 'if .begin then .begin.run else .end end | select(.)' >marks
	diff marks - <<-'END'
		"r"
		{"counts":[[6,0,0,0,0]]}
		"other"
		{"counts":[[3,0,0,0,0]]}
	END
	cat a.lx b.lx c.lx >joined.lx
	same_stream all.lx joined.lx
}

@test "lx-cat: refuses segments that do not belong together" {
	numbers a.lx 1 3
	numbers b.lx 4 6 -d other
	exits 2 lx-cat a.lx b.lx
	says "run r" differ
	seq 3 | lx-in --run other --lines >c.lx
	exits 2 lx-cat a.lx c.lx a.lx
	says "comes back"
}

@test "lx-cat: every file must be complete by itself" {
	numbers a.lx 1 3
	head -c 200 a.lx >cut.lx
	: >zero.lx
	exits 3 lx-cat a.lx cut.lx a.lx
	says cut.lx truncated
	exits 3 lx-cat zero.lx a.lx
	says zero.lx 'no bytes'
	exits 3 lx-cat a.lx zero.lx
	says zero.lx
}

@test "lx-cat: keeps frames as they are" {
	{ for n in 1 2 3; do seq $((n * 2000)) $((n * 2000 + 1500)); sleep 0.05; done; } | lx-in --lines | cat >raw.lx
	frames() { "$PY" -c '
import lxpeer, sys
b, at = open(sys.argv[1], "rb").read(), 0
while at < len(b):
    if b[at:at + 4] == b"\x28\xb5\x2f\xfd":
        end = lxpeer.frame_end(b, at)
        print(len(lxpeer.open_frame(b[at:end])))
        at = end
    else:
        at = lxpeer.open_mark(b, at)[2]' "$1"; }
	frames raw.lx >want
	(($(wc -l <want) >= 1))
	for how in raw checked zstd zstd:12; do
		lx-cat --compress $how raw.lx >copy.lx
		frames copy.lx | diff want - || fail "$how"
		same_stream raw.lx copy.lx
		lx-cat --verify copy.lx | lx-cat --compress raw >back.lx
		frames back.lx | diff want - || fail "$how back"
		same_stream raw.lx back.lx
	done
}

@test "lx-cat: packs in kind, and with checksums what comes raw and goes to a file" {
	numbers a.lx 1 9 --compress raw
	lx-cat a.lx | cat >b.lx
	[[ $(packing b.lx) == raw ]]
	lx-cat a.lx >b.lx
	[[ $(packing b.lx) == zstd ]]
	lx-cat --compress checked a.lx >b.lx
	[[ $(packing b.lx) == checked ]]
	lx-cat b.lx >c.lx
	[[ $(packing c.lx) == checked ]]
	lx-cat --to d.lx a.lx
	[[ $(packing d.lx) == zstd ]]
	lx-cat --compress raw b.lx >c.lx
	[[ $(packing c.lx) == raw ]]
	lx-cat --compress zstd:19 --to small.lx "$CORPUS/good-zstd.lx"
	same_stream small.lx "$CORPUS/good-zstd.lx"
}

@test "lx-cat: a damaged byte is found, where it was with --verify or a new packing at the latest" {
	numbers a.lx 1 3000 --compress checked
	"$PY" -c 'b = bytearray(open("a.lx", "rb").read()); b[len(b) // 2] ^= 1; open("bad.lx", "wb").write(b)'
	exits 3 lx-cat --verify bad.lx
	says bad.lx checksum
	exits 3 lx-cat --json bad.lx
	says checksum
	exits 3 lx-cat --compress zstd bad.lx
	lx-cat bad.lx >copy.lx || true
	exits 3 lx-cat --verify copy.lx
}

@test "lx-cat: forwards what an earlier stage gave up for, and ends with its status" {
	local code
	for code in 2 3 4 5 6 7; do
		exits $code lx-cat "$CORPUS/bad-abort-$code.lx"
		says lx-map: why
		mv out forwarded.lx
		exits $code lx-cat --json forwarded.lx
		grep -qF "{\"abort\":{\"code\":$code,\"stage\":\"lx-map\",\"message\":\"why\"}}" out
	done
}

# ---- parts ----

@test "lx-cat --part-size: cuts a run into parts that are put together again, in any order and with repeats" {
	numbers a.lx 1 60000 --compress raw
	lx-cat --part-size 100K --compress raw --to p- a.lx
	local n
	n=$(printf '%s\n' p-*.lx | wc -l)
	((n > 3)) || fail "$n parts"
	lx-cat p-*.lx >back.lx
	same_stream a.lx back.lx
	printf '%s\n' p-*.lx | sort -r | xargs lx-cat >back.lx
	same_stream a.lx back.lx
	lx-cat p-*.lx p-0001.lx p-0000.lx >back.lx
	same_stream a.lx back.lx
	cat p-0002.lx p-0002.lx p-*.lx >joined.lx
	same_stream a.lx joined.lx
	"$PY" "$ROOT/tests/lxpeer.py" dump <joined.lx >peer
	canonical a.lx | cmp - peer
	lx-cat --json p-0000.lx 2>/dev/null | head -1 | jq -e '.begin.part == 0'
	lx-cat --json "p-000$((n - 1)).lx" 2>/dev/null | tail -1 | jq -e ".end.parts == $n"
}

@test "lx-cat --part-size: a missing part is named" {
	numbers a.lx 1 60000
	lx-cat --part-size 40K --to p- a.lx
	local last
	last=$(printf '%s\n' p-*.lx | tail -1)
	mv p-0001.lx x
	exits 3 lx-cat p-*.lx
	says 'part 1 of run r is missing'
	mv x p-0001.lx
	mv "$last" x
	exits 3 lx-cat p-*.lx
	says 'last part of run r is missing'
	exits 3 lx-cat p-0001.lx
	says 'part 0'
	mv p-0000.lx y
	exits 3 lx-cat x p-*.lx
	says 'part 0'
}

@test "lx-cat --part-size: an empty run is one part, a large frame is not cut" {
	lx-in --run r </dev/null | lx-cat --part-size 1M --to e-
	[[ $(echo e-*) == e-0000.lx ]]
	lx-cat e-0000.lx >out
	stage_empty e-0000.lx lx-cat
	head -c 300000 /dev/urandom >big
	lx-in --run r --read big big big >a.lx
	lx-cat --part-size 1 --to b- a.lx
	[[ $(echo b-*) == 'b-0000.lx b-0001.lx b-0002.lx' ]]
	lx-cat b-*.lx >back.lx
	same_stream a.lx back.lx
}

@test "lx-cat --part-size: several runs are several rows of parts" {
	numbers a.lx 1 60000
	seq 30000 | lx-in --run other --lines >b.lx
	lx-cat --part-size 40K --to p- a.lx b.lx
	cat a.lx b.lx >both.lx
	lx-cat p-*.lx >back.lx
	same_stream both.lx back.lx
}

@test "lx-cat --part-size: a part appears when it is complete, and none of what was cut off is the last" {
	numbers a.lx 1 60000 --compress raw
	head -c 400000 a.lx >cut.lx
	exits 3 lx-cat --part-size 100K --compress raw --to p- cut.lx
	says truncated
	[[ -e p-0000.lx ]]
	exits 3 lx-cat p-*.lx
	says 'last part of run r is missing'
	[[ -z $(find . -name '*.part') ]]
}

# ---- JSON ----

@test "lx-cat --json: a line for every record and mark" {
	outcomes a.lx
	lx-cat --json a.lx >out
	[[ $(jq -c 'select(type == "array")' out | wc -l) == 15 ]]
	jq -es '.[0].begin.run == "corpus" and (.[0].begin.domains | length) == 2 and .[-1].end.counts == [[2,2,1,1,0],[2,1,1,1,4]]' out
	grep -qF '"host":"a","attempt":2,"elapsed":70' out
	lx-cat --json "$CORPUS/good-bars.lx" | jq -c .hint | grep -F '{"bars":'
}

@test "lx-cat --json: what it prints makes the stream again" {
	local f
	for f in outcomes one keys deep bars segments parts worker empty; do
		lx-cat --json "$CORPUS/good-$f.lx" | "$PY" "$ROOT/tests/lxpeer.py" make >back.lx || fail "$f"
		same_stream "$CORPUS/good-$f.lx" back.lx
	done
}

@test "lx-cat --json: numbers, bytes and names are exact" {
	lx-cat --json "$CORPUS/good-values.lx" >out
	grep -qF '18446744073709551615' out
	grep -qF -- '-9223372036854775808' out
	grep -qF '18446744073709551616' out
	grep -qF '"not UTF-8":{"$str":"Yf9i"}' out
	"$PY" -c 'import json, sys; [json.loads(l) for l in open("out", encoding="utf-8")]'
}

@test "lx-cat: prints JSON on a terminal" {
	numbers a.lx 1 2
	run script -qec 'lx-cat a.lx' /dev/null </dev/null
	assert_success
	assert_line --partial '[1,0,[1],{"data":"2"}'
}

@test "lx-cat --json: what arrives is printed at once" {
	mkfifo in
	bg sh -c 'lx-in <in | lx-cat --json >out'
	exec 8>in
	echo one >&8
	wait_for 20 grep -qF '"path":"one"' out
	exec 8>&-
	wait "$PID"
}

# ---- canonical ----

@test "lx-cat --canonical: prints what the peer prints, for every stream of the corpus" {
	local f got want
	"$PY" - "$CORPUS"/*.lx >statuses <<-'END'
		import sys, lxpeer
		for path in sys.argv[1:]:
		    reader, code = lxpeer.Reader(), 0
		    try:
		        reader.read(open(path, 'rb').read())
		    except lxpeer.Bad as e:
		        code = e.args[1]
		    print(code, path)
		    with open('peer.' + path.split('/')[-1], 'wb') as f:
		        f.writelines(lxpeer.canonical(reader.records))
	END
	(($(wc -l <statuses) > 100))
	while read -r want f; do
		got=0
		lx-cat --canonical "$f" >got 2>/dev/null || got=$?
		[[ $got == "$want" ]] || fail "exit $got, not $want: $f"
		# Of a frame with a bad record the peer takes nothing, lx what stands before it.
		[[ $f == */bad-* ]] || cmp "peer.${f##*/}" got || fail "$f"
	done <statuses
}

@test "lx-cat --canonical: the same lines whatever the order, and on disk beyond --mem" {
	seq 60000 | sed 's/.*/[1,0,[&],{"n":&},&]/' >lines
	shuf --random-source=<(yes) lines | sed '1000~1000a {"flush":0}' | "$PY" "$ROOT/tests/lxpeer.py" make zstd >a.lx
	lx-cat --canonical a.lx | cmp - lines
	mkdir tmp
	lx-cat --canonical --mem 1M --tmpdir tmp a.lx | cmp - lines
	exits 5 lx-cat --canonical --mem 1M --tmpdir missing a.lx
	says missing --tmpdir
	[[ -z $(ls tmp) ]]
}

@test "lx-cat --canonical: memory stays within --mem" {
	seq 400000 | sed 's/$/ and a tail that makes it longer than it was before/' | lx-in --lines >a.lx
	lx-cat --canonical --mem 4M a.lx | sha256sum >small
	(sanitized || ulimit -v 60000; lx-cat --canonical --mem 4M a.lx) | sha256sum | diff small -
	lx-cat --canonical --mem 1G a.lx | sha256sum | diff small -
}

@test "lx-cat --canonical: a prefix sorts first, records that occur twice are printed twice" {
	"$PY" "$ROOT/tests/lxpeer.py" make >a.lx <<-'END'
		{"begin":{"domains":["doc","page"]}}
		[1,1,[1,0],{}]
		[2,1,[0,256],1,null,null]
		[1,1,[0,255],{"b":1}]
		[1,1,[0,255],{"a":1}]
		[1,1,[0,255],{"a":1}]
		[3,1,[0],256,0,null]
		[1,0,[256],{},1]
		[1,0,[2],{},1]
	END
	lx-cat --canonical a.lx >out
	diff out - <<-'END'
		[1,0,[2],{},1]
		[1,0,[256],{},1]
		[3,1,[0],256,0,null]
		[1,1,[0,255],{"a":1}]
		[1,1,[0,255],{"a":1}]
		[1,1,[0,255],{"b":1}]
		[2,1,[0,256],1,null,null]
		[1,1,[1,0],{}]
	END
}

# ---- the edges ----

@test "lx-cat: an empty stream stays one" {
	local how
	for how in '' --verify '--compress zstd'; do
		stage_empty "$CORPUS/good-empty.lx" lx-cat $how
	done
	lx-cat --canonical <"$CORPUS/good-empty.lx" >out
	[[ ! -s out ]]
}

@test "lx-cat: cut after any byte it ends with 3, and so does what it wrote" {
	outcomes a.lx
	stage_cut a.lx lx-cat
	stage_cut "$CORPUS/good-zstd.lx" lx-cat --compress raw
}

@test "lx-cat: prints what arrived of a stream that is cut off" {
	numbers a.lx 1 60000 --compress raw
	head -c 400000 a.lx >cut.lx
	exits 3 lx-cat --json cut.lx
	says truncated
	(($(grep -c '^\[1,' out) > 10000))
	exits 3 lx-cat --canonical cut.lx
	says truncated
	lx-cat --canonical a.lx >whole
	cmp -n "$(stat -c %s out)" out whole
}

@test "lx-cat: a full disk is exit 5" {
	numbers a.lx 1 60000
	stage_full a.lx lx-cat
	stage_full a.lx lx-cat --json
	stage_full a.lx lx-cat --canonical
	stage_full a.lx lx-cat --to /dev/full
	stage_full "$CORPUS/good-one.lx" lx-cat --json
}

@test "lx-cat: a reader that is gone ends it quietly" {
	numbers a.lx 1 60000
	stage_gone a.lx lx-cat
	stage_gone a.lx lx-cat --json
	stage_gone a.lx lx-cat --canonical
}

@test "lx-cat: two in a row are as one" {
	local how
	outcomes a.lx
	for how in '' '--compress checked' '--compress zstd' --verify; do
		lx-cat $how <a.lx >one.lx
		lx-cat $how <a.lx | lx-cat $how >two.lx
		same_stream one.lx two.lx
		cmp one.lx two.lx
	done
}

@test "lx-cat: wrong options and missing files are one line" {
	exits 2 lx-cat --json --canonical </dev/null
	says choose
	exits 2 lx-cat --part-size 1M </dev/null
	says --to
	exits 2 lx-cat --part-size 0 --to x </dev/null
	exits 2 lx-cat --json --compress zstd </dev/null
	says --compress
	exits 2 lx-cat --compress zstd:20 </dev/null
	says --compress
	exits 5 lx-cat missing.lx
	says missing.lx 'No such file'
	exits 5 lx-cat "$CORPUS/good-one.lx" missing.lx
	says missing.lx
	exits 3 lx-cat </dev/null
	says 'no bytes'
	exits 5 lx-cat .
	says directory
}

@test "lx-cat: what is refused is told to the next stage, but not in the midst of JSON" {
	lx-cat --nonsense </dev/null 2>/dev/null | { exits 2 lx-out; }
	lx-cat missing.lx 2>/dev/null | { exits 5 lx-out; }
	exits 2 lx-cat --json --nonsense </dev/null
	[[ ! -s out ]]
	exits 5 lx-cat --canonical missing.lx
	[[ ! -s out ]]
}

@test "lx-cat: takes files with odd names" {
	numbers "-x" 1 2
	numbers $'new\nline' 3 4
	lx-cat -- -x $'new\nline' >all.lx
	numbers want.lx 1 4
	same_stream all.lx want.lx
	printf x >>$'new\nline'
	exits 3 lx-cat --json -- $'new\nline'
	says 'new'
}

@test "lx-cat: SIGINT ends the reading of files" {
	mkfifo in
	local got=0
	numbers a.lx 1 60000 --compress raw
	bg env --default-signal=INT sh -c 'exec lx-cat a.lx in >out.lx 2>err'
	exec 8>in
	arrived() { lx-cat --json out.lx 2>/dev/null | grep -qF '"60000"'; }
	wait_for 20 arrived
	kill -INT "$PID"
	wait "$PID" || got=$?
	exec 8>&-
	[[ $got == 130 ]] || fail "exit $got"
	exits 3 lx-cat out.lx
}

@test "lx-cat: LX_CHECK writes the marks only" {
	numbers a.lx 1 5
	export LX_CHECK=1
	stage_empty a.lx lx-cat
	lx-cat --json a.lx >out
	[[ ! -s out ]]
	lx-cat --canonical a.lx >out
	[[ ! -s out ]]
	lx-cat --part-size 1 --to p- a.lx
	lx-cat --to x.lx a.lx
	[[ $(echo p-*) == 'p-*' && ! -e x.lx ]]
}

@test "lx-cat: --stats counts what came and went" {
	outcomes a.lx
	lx-cat --stats stats a.lx >/dev/null
	jq -e '.stage == "lx-cat" and .in == .out and .out.page.closes == 4 and .out.doc.dropped == 2' stats
}
