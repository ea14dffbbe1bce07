# lx-out: what is present comes out exactly, what is not is told truthfully.
load lib

CORPUS=$ROOT/tests/corpus

make_lx() { "$PY" "$ROOT/tests/lxpeer.py" make "$@"; }

TREE='[{"name":"doc","parent":null,"state":"open"},{"name":"page","parent":0,"state":"gathered"},{"name":"region","parent":1,"state":"gathered"}]'
REGION='{"type":"blank","message":"nothing in it","anchor":[1,[3,6]],"origin":[2,[3,6,1]],"stage":"lx-map","host":"h","attempt":2}'

# Root items of all outcomes whose pages were gathered, in ./in.lx: 2 present, 1 dropped, 2 failed, 1 suppressed.
verdicts() {
	make_lx >in.lx <<-END
		{"begin":{"run":"r","domains":$TREE}}
		[1,0,[2],{"path":"c","n":3},"c"]
		[2,0,[1],1,null,null,"b"]
		[1,0,[0],{"path":"a"},"a"]
		[2,0,[3],3,$REGION,{"path":"d"},"d"]
		[2,0,[4],2,{"type":"bad-pdf","message":"no trailer","anchor":[0,[4]],"origin":[0,[4]]},null,"e\u0007"]
		[2,0,[5],2,{"type":"blank","message":"nothing in it","anchor":[0,[5]],"origin":[1,[5,0]]},null,{"a":1}]
	END
}

# framed: a stream of the lines on stdin, 1000 in a frame.
framed() { sed '1000~1000a {"flush":0}' | make_lx; }

# numbers N: N items, shuffled.
numbers() {
	seq 0 $(($1 - 1)) | sed 's/.*/[1,0,[&],{"n":&},&]/' | shuf --random-source=<(yes) | framed
}

is() { diff out - <<<"$1" || fail "not what it should be"; }

# ---- lines ----

@test "lx-out: writes the present root items, ours first, then the fields" {
	verdicts
	exits 1 lx-out <in.lx
	is '{"lx":{"id":[2],"key":"c"},"path":"c","n":3}
{"lx":{"id":[0],"key":"a"},"path":"a"}'
}

@test "lx-out: says what became of all items, and the first of each type of failure" {
	verdicts
	exits 1 lx-out <in.lx
	diff err - <<-'END'
		lx-out: 2 present, 1 dropped, 2 failed, 1 suppressed
		lx-out: 2 blank: d (page 7, region 2: nothing in it), ...
		lx-out: 1 bad-pdf: e\x07 (no trailer)
		lx-out: 3 of 6 failed or were suppressed, --max-failed allows 0
	END
	exits 1 lx-out -q <in.lx
	says 'failed or were suppressed'
	exits 0 lx-out -q --max-failed 3 <in.lx
	[[ ! -s err ]]
}

@test "lx-out --failures: writes the others with outcome, cause, where, and the fields that were kept" {
	verdicts
	exits 0 lx-out --max-failed 100% --failures bad.jsonl <in.lx
	diff bad.jsonl - <<-'END'
		{"lx":{"id":[3],"key":"d","outcome":"suppressed","cause":{"type":"blank","message":"nothing in it","where":"page 7, region 2","anchor":["page",[3,6]],"origin":["region",[3,6,1]],"stage":"lx-map","host":"h","attempt":2}},"path":"d"}
		{"lx":{"id":[4],"key":"e\u0007","outcome":"failed","cause":{"type":"bad-pdf","message":"no trailer","anchor":["doc",[4]],"origin":["doc",[4]]}}}
		{"lx":{"id":[5],"key":{"a":1},"outcome":"failed","cause":{"type":"blank","message":"nothing in it","where":"page 1","anchor":["doc",[5]],"origin":["page",[5,0]]}}}
	END
	exits 5 lx-out --failures missing/bad.jsonl <in.lx
	says --failures missing/bad.jsonl
	stage_full_failures() { lx-out -q --max-failed 9 --failures /dev/full <in.lx >/dev/null 2>err; }
	run stage_full_failures
	assert_failure 5
	says space
}

@test "lx-out: values are exact" {
	lx-out -q <"$CORPUS/good-values.lx" >out
	"$PY" - <<-'END'
		import json
		[line] = open('out', encoding='utf-8').read().splitlines()
		v = json.loads(line)
		assert v['lx'] == {'id': [0], 'key': 'k'}, v['lx']
		assert v['u64 max'] == 2**64 - 1 and v['i64 min'] == -2**63
		assert v['bin'] == {'$bin': 'AP8='} and v['not UTF-8'] == {'$str': 'Yf9i'}
		assert v['NaN with a payload'] == {'$float': 'nan'} and str(v['minus zero']) == '-0.0'
		assert v['escapes'] == '"\\\b\x1f\x7f\n/' and v['UTF-8'] == '\U0001f408'
	END
	grep -qF '"overflow":1e400' out
}

@test "lx-out: a field called lx, or with a name that is no UTF-8, is not lost and not confused" {
	make_lx >in.lx <<-'END'
		[1,0,[0],{"a":1,"lx":{"id":[9],"key":"x"}},"k"]
		[1,0,[1],{"$map":[[{"$str":"/w=="},1],["b",2]]},"k"]
		[1,0,[2],{"$map":[["$bin","AA=="]]},"k"]
		[1,0,[3],{},"k"]
		[1,0,[4],{"fields":{"a":1}},"k"]
	END
	lx-out -q <in.lx >out
	is '{"lx":{"id":[0],"key":"k","fields":{"a":1,"lx":{"id":[9],"key":"x"}}}}
{"lx":{"id":[1],"key":"k","fields":{"$map":[[{"$str":"/w=="},1],["b",2]]}}}
{"lx":{"id":[2],"key":"k"},"$bin":"AA=="}
{"lx":{"id":[3],"key":"k"}}
{"lx":{"id":[4],"key":"k"},"fields":{"a":1}}'
}

@test "lx-out: keys of any type and hostile names come out as they are" {
	printf 'new\nline\0-rf\0caf\xe9\0"\\\0' | lx-in -0 | lx-out -q >out
	is '{"lx":{"id":[0],"key":"new\nline"},"path":"new\nline"}
{"lx":{"id":[1],"key":"-rf"},"path":"-rf"}
{"lx":{"id":[2],"key":{"$bin":"Y2Fm6Q=="}},"path":{"$bin":"Y2Fm6Q=="}}
{"lx":{"id":[3],"key":"\"\\"},"path":"\"\\"}'
}

@test "lx-out --drop: leaves fields out, and refuses one that nothing writes" {
	printf 'x' >a
	lx-in --read a | lx-out -q --drop data >out
	is '{"lx":{"id":[0],"key":"a"},"path":"a"}'
	lx-in --read a | lx-out -q --drop data,path >out
	is '{"lx":{"id":[0],"key":"a"}}'
	lx-in a >a.lx
	exits 2 lx-out --drop data <a.lx
	says --drop data path
	lx-in --read missing | lx-out -q --max-failed 1 --drop path --failures bad >/dev/null
	[[ $(jq -c 'del(.lx)' bad) == '{}' ]]
}

# ---- the shape ----

@test "lx-out: refuses a domain that is still open, and says what to do" {
	exits 2 lx-out <"$CORPUS/good-outcomes.lx"
	says "domain 'page' is still open" lx-gather -d
	[[ ! -s out ]]
}

@test "lx-out -d: writes the items of an open domain instead" {
	exits 1 lx-out -d page --failures bad <"$CORPUS/good-outcomes.lx"
	is '{"lx":{"domain":"page","id":[0,1]}}
{"lx":{"domain":"page","id":[0,0]},"data":{"$bin":"AA=="}}'
	[[ $(jq -r '.lx | "\(.domain) \(.id) \(.outcome) \(.cause.where)"' bad) == 'page [0,3] failed null
page [0,4] suppressed doc 1, page 4' ]]
	grep -qF '2 present, 1 dropped, 1 failed, 1 suppressed' err
	exits 1 lx-out -d doc <"$CORPUS/good-outcomes.lx"
	[[ $(wc -l <out) == 2 ]]
	exits 2 lx-out -d nothing <"$CORPUS/good-outcomes.lx"
	says nothing 'doc, page'
	verdicts
	exits 2 lx-out -d page <in.lx
	says "'page' has been gathered"
}

@test "lx-out: takes no operands" {
	exits 2 lx-out in.lx </dev/null
	says in.lx
}

# ---- the verdict ----

@test "lx-out --max-failed: a number or a percentage decides between 0 and 1" {
	verdicts
	local ok
	for ok in 3 4 50% 100%; do
		exits 0 lx-out --max-failed $ok <in.lx
		[[ $(wc -l <out) == 2 ]]
	done
	for ok in 0 2 49.9% 0%; do
		exits 1 lx-out --max-failed $ok <in.lx
		[[ $(wc -l <out) == 2 ]]
	done
	for ok in -1 x 101% 5%% 1.5 ''; do
		exits 2 lx-out --max-failed "$ok" <in.lx
		says --max-failed
	done
}

@test "lx-out: exit 1 still puts --to and --failures in place" {
	verdicts
	exits 1 lx-out --to docs --failures bad <in.lx
	[[ $(wc -l <docs) == 2 && $(wc -l <bad) == 3 ]]
}

@test "lx-out: an item that comes twice is written once" {
	make_lx >in.lx <<-'END'
		[1,0,[0],{"a":1},"k"]
		[1,0,[1],{},"k"]
		[1,0,[0],{"a":1},"k"]
		[2,0,[1],2,{"type":"x","message":"","anchor":[0,[1]],"origin":[0,[1]]},null,"k"]
	END
	exits 0 lx-out <in.lx
	is '{"lx":{"id":[0],"key":"k"},"a":1}
{"lx":{"id":[1],"key":"k"}}'
	says '2 present, 2 came again and were left out'
}

@test "lx-out: several runs are written one after the other, each with ids of its own" {
	seq 2 | lx-in --run a --lines --key data >a.lx
	seq 3 4 | lx-in --run b --lines --key data >b.lx
	cat a.lx b.lx | lx-out --ordered >out 2>err
	is '{"lx":{"id":[0],"key":"1"},"data":"1"}
{"lx":{"id":[1],"key":"2"},"data":"2"}
{"lx":{"id":[0],"key":"3"},"data":"3"}
{"lx":{"id":[1],"key":"4"},"data":"4"}'
	says '4 present'
}

# ---- order ----

@test "lx-out --ordered: writes by id whatever the order, on disk beyond --mem" {
	numbers 60000 >in.lx
	seq 0 59999 | sed 's/.*/{"lx":{"id":[&],"key":&},"n":&}/' >want
	lx-out -q --ordered <in.lx | cmp - want
	mkdir tmp
	lx-out -q --ordered --mem 1M --tmpdir tmp --stats stats <in.lx | cmp - want
	jq -e '.spilled_bytes > 1000000' stats
	[[ -z $(ls tmp) ]]
	exits 5 lx-out --ordered --mem 1M --tmpdir missing <in.lx
	says missing --tmpdir
}

@test "lx-out --ordered: memory stays within --mem" {
	{ seq 1 100000 | sed 's/.*/[1,0,[&],{"n":"& and a tail that makes this line longer"},&]/'; echo '[1,0,[0],{},0]'; } | framed >in.lx
	(sanitized || ulimit -v 40000; exec lx-out -q --ordered --mem 2M <in.lx >out)
	jq -r '.lx.id[0]' out | cmp - <(seq 0 100000)
}

@test "lx-out --ordered: items that are not present leave no gap that others wait for" {
	mkfifo in
	cat >lines <<-'END'
		[2,0,[1],1,null,null,"b"]
		[2,0,[2],2,{"type":"x","message":"","anchor":[0,[2]],"origin":[0,[2]]},null,"c"]
		[2,0,[3],3,{"type":"x","message":"","anchor":[0,[3]],"origin":[0,[3]]},null,"d"]
		[1,0,[5],{},"f"]
		[1,0,[4],{},"e"]
		[1,0,[7],{},"h"]
		{"flush":0}
		[1,0,[0],{},"a"]
		{"flush":0}
		[1,0,[8],{},"i"]
	END
	make_lx <lines >in.lx
	# Everything but the last frame and the end mark.
	local cut
	cut=$("$PY" -c '
import lxpeer
b, at, frames = open("in.lx", "rb").read(), 0, []
while at < len(b):
    if b[at:at + 4] == b"\x28\xb5\x2f\xfd":
        at = lxpeer.frame_end(b, at)
        frames.append(at)
    else:
        at = lxpeer.open_mark(b, at)[2]
print(frames[1])')
	bg sh -c 'lx-out --max-failed 9 --ordered --failures bad <in >out 2>err'
	exec 8>in
	head -c "$cut" in.lx >&8
	three() { [[ $(jq -c .lx.id out | tr '\n' ' ') == '[0] [4] [5] ' ]]; }
	wait_for 20 three
	tail -c +$((cut + 1)) in.lx >&8
	exec 8>&-
	wait "$PID"
	[[ $(jq -c .lx.id out | tr '\n' ' ') == '[0] [4] [5] [7] [8] ' ]]
	[[ $(jq -c .lx.id bad | tr '\n' ' ') == '[2] [3] ' ]]
}

@test "lx-out --ordered: only for root items" {
	exits 2 lx-out --ordered -d page <"$CORPUS/good-outcomes.lx"
	says --ordered page
	exits 1 lx-out --ordered -d doc <"$CORPUS/good-outcomes.lx"
}

# ---- the edges ----

@test "lx-out: nothing comes of an empty stream" {
	exits 0 lx-out --failures bad <"$CORPUS/good-empty.lx"
	[[ ! -s out && -e bad && ! -s bad ]]
	says '0 present'
	exits 0 lx-out --ordered -q --to docs <"$CORPUS/good-empty.lx"
	[[ -e docs && ! -s docs ]]
}

@test "lx-out: cut after any byte it ends with 3, and what arrived has been written" {
	verdicts
	lx-out -q --max-failed 9 <in.lx >whole
	local i got size step=1
	! sanitized || step=7
	size=$(stat -c %s in.lx)
	for ((i = 0; i < size; i += step)); do
		got=0
		head -c "$i" in.lx | lx-out --max-failed 9 --to docs --failures bad 2>err || got=$?
		[[ $got == 3 && ! -e docs && ! -e bad ]] || fail "exit $got, cut after $i"
		says truncated
		got=0
		head -c "$i" in.lx | lx-out --ordered 2>err >out || got=$?
		[[ $got == 3 ]] || fail "exit $got, cut after $i"
	done
	numbers 60000 >in.lx
	head -c 600000 in.lx >cut.lx
	exits 3 lx-out <cut.lx
	says truncated
	lx-cat --json cut.lx 2>/dev/null | grep -c '^\[1,' >count || true
	(($(<count) > 10000))
	[[ $(wc -l <out) == "$(<count)" ]]
	exits 3 lx-out --ordered <cut.lx
	[[ $(wc -l <out) == "$(<count)" ]]
	jq -c '.lx.id[0]' out | sort -nc
}

@test "lx-out: ends as the stage that gave up, and says nothing it said" {
	local code
	for code in 2 3 4 5 6 7; do
		head -c 4000 "$CORPUS/bad-abort-$code.lx" | { exits $code lx-out; }
		[[ ! -s err ]] || fail "$(<err)"
		exits $code lx-out <"$CORPUS/bad-abort-$code.lx"
		says lx-map: why
	done
}

@test "lx-out: a stage that is killed in a pipeline ends it with 3, without pipefail" {
	local got=0
	mkfifo in
	bg sh -c 'lx-in <in | sh -c "echo \$\$ >pid; exec lx-cat" | lx-cat 2>said | lx-out >out 2>err'
	exec 8>in
	echo one >&8
	wait_for 20 grep -qF '"one"' out
	kill -KILL "$(<pid)"
	exec 8>&-
	wait "$PID" || got=$?
	[[ $got == 3 ]] || fail "exit $got"
	grep -q truncated said
	[[ ! -s err ]] || fail "said again: $(<err)"
}

@test "lx-out: a full disk is exit 5" {
	verdicts
	stage_full in.lx lx-out --max-failed 9
	stage_full in.lx lx-out --ordered
	numbers 60000 >in.lx
	stage_full in.lx lx-out
	stage_full in.lx lx-out --to /dev/full
}

@test "lx-out: a reader that is gone ends it quietly" {
	verdicts
	stage_gone in.lx lx-out -q
	numbers 60000 >in.lx
	stage_gone in.lx lx-out --ordered
}

@test "lx-out: what arrives is written while the source is idle" {
	mkfifo in
	bg sh -c 'lx-in <in | lx-out --failures /dev/stdout >out'
	exec 8>in
	echo one >&8
	wait_for 20 grep -qF '"one"' out
	exec 8>&-
	wait "$PID"
}

@test "lx-out: its lines made a stream again give the same lines" {
	verdicts
	lx-out -q --max-failed 9 <in.lx >one
	lx-in --jsonl one | lx-out -q >two
	diff <(jq -c 'del(.lx.id)' one) <(jq -c 'del(.lx.id)' two)
}

@test "lx-out: LX_CHECK checks, and writes nothing" {
	verdicts
	export LX_CHECK=1
	exits 0 lx-out --to docs --failures bad <in.lx
	[[ ! -s out && ! -s err && ! -e docs && ! -e bad ]]
	exits 2 lx-out <"$CORPUS/good-outcomes.lx"
	says lx-gather
}

@test "lx-out: a terminal as input is refused" {
	run script -qec 'lx-out' /dev/null </dev/null
	[[ $output == *'stdin is a terminal'* ]] || fail "$output"
}

@test "lx-out: --stats counts what came" {
	verdicts
	exits 1 lx-out --stats stats <in.lx
	jq -e '.stage == "lx-out" and .run == "r" and .domain == "doc" and .in.doc == {"present":2,"dropped":1,"failed":2,"suppressed":1,"closes":0}
		and .repeated == 0 and (has("out") | not)' stats
}

@test "lx-out: remembers finished items in bounded memory" {
	seq 1000000 | lx-in --lines >in.lx
	lx-out -q --stats stats <in.lx >/dev/null
	sanitized || jq -e '.max_rss_kb < 20000' stats || fail "$(<stats)"
}

@test "lx-out: -d counts an expansion that failed" {
	printf 'a\nb\nc\n' | lx-in --lines -d doc | lx-expand -d line -- sh -c 'echo x; [ "$LX_ID" != 1 ] || exit 3' >in.lx
	exits 1 lx-out -d line <in.lx
	grep -q '3 present, 1 expansion failed' err
	grep -q '1 exit: 1' err
	lx-out -q -d line --max-failed 1 <in.lx >out
	[[ $(wc -l <out) == 3 ]]
	cat in.lx in.lx | lx-out -q -d line --max-failed 1 >out # said twice it is one
}
