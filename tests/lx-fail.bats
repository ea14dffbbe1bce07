# lx-fail: failures are raised, marked, listed, split off and done again.
load lib

CORPUS=$ROOT/tests/corpus

make_lx() { "$PY" "$ROOT/tests/lxpeer.py" make "$@"; }
is() { diff out - <<<"$1" || fail "not what it should be"; }

# ---- inside a command ----

# raise OPTIONS...: what it tells the stage, in ./told.
raise() {
	LX_FAIL=7 lx-fail "$@" 7>>told
}

@test "lx-fail: tells the stage type, scope and message in one line, and exits 0" {
	raise
	raise -t bad-pdf 'no trailer'
	raise -t bad-page --scope parent page 7 is blank
	raise --scope doc -- -t is no option here
	diff told - <<-END
		fail	record	
		bad-pdf	record	no trailer
		bad-page	parent	page 7 is blank
		fail	doc	-t is no option here
	END
}

@test "lx-fail: a message is one line, whatever is in it" {
	raise $'a\nb\tc\x7f' $'\xff\xc3\xa9'
	[[ $(wc -l <told) == 1 ]]
	printf 'fail\trecord\ta b c  \xff\xc3\xa9\n' | cmp - told
}

@test "lx-fail: a long message is cut so that one write takes it, not inside a character" {
	raise "$(printf 'é%.0s' {1..9000})"
	[[ $(wc -l <told) == 1 ]]
	(($(wc -c <told) <= 4096 && $(wc -c <told) > 4090))
	iconv -f UTF-8 -t UTF-8 told >/dev/null
	"$PY" - <<-'END'
		import os, socket, subprocess
		ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a packet for each write
		subprocess.run(['lx-fail', 'x' * 9000], check=True, pass_fds=[theirs.fileno()], env={**os.environ, 'LX_FAIL': str(theirs.fileno())})
		theirs.close()
		ours.setblocking(False)
		line = ours.recv(65536)
		assert line.startswith(b'fail\trecord\txxx') and line.endswith(b'x\n') and len(line) == 4096, line
		assert ours.recv(65536) == b''
	END
}

@test "lx-fail: outside a stage's command is exit 2, and nothing to write to is exit 5" {
	exits 2 lx-fail -t bad 'why'
	says LX_FAIL
	LX_FAIL=x exits 2 lx-fail
	says LX_FAIL
	LX_FAIL=99 exits 5 lx-fail
	says LX_FAIL
}

@test "lx-fail: types and scopes are words" {
	local t
	for t in Bad 'bad pdf' bad_pdf 7up '' -x "$(printf 'x%.0s' {1..64})" $'a\nb' é; do
		LX_FAIL=7 exits 2 lx-fail -t "$t" 7>told
		says -t
		[[ ! -s told ]]
	done
	for t in 'a b' 7 '' a/b $'a\tb'; do
		LX_FAIL=7 exits 2 lx-fail --scope "$t" 7>told
		says --scope
		[[ ! -s told ]]
	done
	raise -t "$(printf 'x%.0s' {1..63})"
	raise --scope _My-Domain2
}

@test "lx-fail: raised in a command of lx-map it fails the item, whatever the command ends with" {
	seq 4 | lx-in --run r --lines --key data |
		lx-map -o x:str -- sh -c 'read n; case $n in 2) lx-fail -t two "it is $n" ;; 3) lx-fail -t three; exit 9 ;; esac; echo ok' 2>/dev/null |
		lx-out -q --max-failed 2 --failures bad >out
	[[ $(jq -r .lx.key out | tr '\n' ' ') == '1 4 ' ]]
	[[ $(jq -r '"\(.lx.key) \(.lx.outcome) \(.lx.cause.type) \(.lx.cause.message)"' bad | sort) == '2 failed two it is 2
3 failed three ' ]]
}

# ---- marking ----

@test "lx-fail --id, --key: fail the items named, which keep their fields" {
	printf '%s\n' a b c d | lx-in --run r --lines --key data >in.lx
	lx-fail --key b --id 3 -t odd looks odd <in.lx | lx-cat --canonical >out
	is '[1,0,[0],{"data":"a"},"a"]
[2,0,[1],2,{"type":"odd","message":"looks odd","anchor":[0,[1]],"origin":[0,[1]],"stage":"lx-fail"},{"data":"b"},"b"]
[1,0,[2],{"data":"c"},"c"]
[2,0,[3],2,{"type":"odd","message":"looks odd","anchor":[0,[3]],"origin":[0,[3]],"stage":"lx-fail"},{"data":"d"},"d"]'
}

@test "lx-fail --id: with a scope the parent and all below it are lost" {
	make_lx >in.lx <<-'END'
		{"begin":{"domains":["doc","page"]}}
		[1,0,[0],{},"a"]
		[1,1,[0,0],{}]
		[1,1,[0,1],{}]
		[1,0,[1],{},"b"]
		[1,1,[0,2],{}]
		[1,1,[1,0],{}]
		[3,1,[0],3,0,null]
		[3,1,[1],1,0,null]
	END
	lx-fail --id 0.1 -t odd --scope parent <in.lx >out.lx
	lx-cat --json out.lx | jq -c 'select(type == "array" and .[1] == 1 and .[0] != 3) | [.[0], .[2], (.[4].anchor? // null)]' >out
	is '[1,[0,0],null]
[2,[0,1],[0,[0]]]
[2,[0,2],[0,[0]]]
[1,[1,0],null]'
	lx-fail --id 0.1 --scope doc <in.lx | lx-cat --json | grep -cF '"anchor":[0,[0]]'
	exits 6 lx-fail --id 0.1 --scope line <in.lx
	says --scope line
}

@test "lx-fail --id: says which items did not come, and leaves the others alone" {
	seq 3 | lx-in --run r --lines >in.lx
	exits 0 lx-fail --id 7 <in.lx
	says '--id 7'
	same_stream in.lx out
	exits 0 lx-fail -q --id 7 --key nobody <in.lx
	[[ ! -s err ]]
	lx-in a $'b\xff' >in.lx
	lx-fail --key $'b\xff' <in.lx | lx-cat --json | grep -c '^\[2,0,\[1\]'
}

@test "lx-fail --key: only root items have keys" {
	exits 2 lx-fail --key k <"$CORPUS/good-outcomes.lx"
	says --key '-d doc'
	exits 0 lx-fail --key k -d doc <"$CORPUS/good-outcomes.lx"
}

@test "lx-fail --where: fails the items that pass all tests, and those of which it cannot be said" {
	printf '%s\n' '{"n":1,"s":"a"}' '{"n":5,"s":"a"}' '{"n":5,"s":"b"}' '{"s":"a"}' '{"n":[],"s":"a"}' | lx-in --jsonl --key n >in.lx
	lx-fail --where 'n>2' --where s==a -t large <in.lx | lx-cat --canonical |
		sed -E 's/^\[2,0,\[(.)\],2,\{"type":"([^"]*)".*/\1 \2/; s/^\[1,0,\[(.)\].*/\1 present/' >out
	is '0 present
1 large
2 present
3 no-field
4 bad-field'
	exits 2 lx-fail --where 'n=2' <in.lx
	says --where
	seq 3 | lx-in --lines >in.lx
	exits 2 lx-fail --where 'n>2' <in.lx
	says "'n'" data --where
	lx-fail --where 'data==2' --id 0 <in.lx | lx-fail --count >out
	is '2	fail'
}

# ---- looking ----

@test "lx-fail --list: a line for each item that failed or was suppressed" {
	exits 0 lx-fail --list <"$CORPUS/good-outcomes.lx"
	LC_ALL=C sort out >sorted
	mv sorted out
	is '0.3	page 4	failed (bad)	why
0.4	page 5	suppressed (doc 1, page 4: bad)	why
2	k	failed (bad)	why
4	k	suppressed (doc 3: bad)	why'
	exits 0 lx-fail --list -d page <"$CORPUS/good-outcomes.lx"
	[[ $(wc -l <out) == 2 ]]
	exits 2 lx-fail --list -d nothing <"$CORPUS/good-outcomes.lx"
	says nothing
}

@test "lx-fail --list: says where below a document the cause lies, and keeps columns whole" {
	make_lx >in.lx <<-'END'
		{"begin":{"domains":[{"name":"doc","parent":null,"state":"open"},{"name":"page","parent":0,"state":"gathered"}]}}
		[2,0,[3],3,{"type":"bad-page","message":"blank\tand\nempty","anchor":[0,[3]],"origin":[1,[3,6]]},null,"b\t.pdf"]
		[2,0,[4],2,{"type":"x","message":"","anchor":[0,[4]],"origin":[0,[4]]},null,{"n":7}]
	END
	exits 0 lx-fail --list <in.lx
	is '3	b\x09.pdf	suppressed (page 7: bad-page)	blank\x09and\x0aempty
4	{"n":7}	failed (x)	'
	exits 0 lx-fail --list --json <in.lx
	is '{"lx":{"id":[3],"key":"b\t.pdf","outcome":"suppressed","cause":{"type":"bad-page","message":"blank\tand\nempty","where":"page 7","anchor":["doc",[3]],"origin":["page",[3,6]]}}}
{"lx":{"id":[4],"key":{"n":7},"outcome":"failed","cause":{"type":"x","message":"","anchor":["doc",[4]],"origin":["doc",[4]]}}}'
}

@test "lx-fail --count: how many of each type, most frequent first" {
	seq 0 9 | sed 's/.*/[2,0,[&],2,{"type":"t&","message":"","anchor":[0,[&]],"origin":[0,[&]]},null,&]/; s/"t[3-9]"/"many"/' | make_lx >in.lx
	exits 0 lx-fail --count <in.lx
	is '7	many
1	t0
1	t1
1	t2'
	exits 0 lx-fail --count --json <in.lx
	[[ $(head -1 out) == '{"type":"many","count":7}' ]]
	seq 0 99 | sed 's/.*/[2,0,[&],2,{"type":"t&","message":"","anchor":[0,[&]],"origin":[0,[&]]},null,&]/' | make_lx >in.lx
	exits 0 lx-fail --count <in.lx
	[[ $(wc -l <out) == 65 && $(tail -1 out) == '36	(other)' ]]
}

# ---- splitting off, replaying ----

@test "lx-fail --only: a stream of only what failed or was suppressed" {
	lx-fail --only <"$CORPUS/good-outcomes.lx" >dead.lx
	canonical "$CORPUS/good-outcomes.lx" | grep -E '^\[2,.,\[[0-9,]*\],[23],' >want
	canonical dead.lx | diff want -
	lx-cat --json dead.lx | head -1 | jq -e '.begin.run == "corpus" and (.begin.domains | length) == 2'
	lx-fail --only <dead.lx >twice.lx
	same_stream dead.lx twice.lx
}

@test "lx-fail --replay: root items are present again, under the same run, ids and keys" {
	printf '%s\n' a b c | lx-in --run r --lines --key data | lx-fail --key b --id 2 >marked.lx
	lx-fail --replay <marked.lx >again.lx
	canonical again.lx >out
	is '[1,0,[1],{"data":"b"},"b"]
[1,0,[2],{"data":"c"},"c"]'
	lx-cat --json again.lx | head -1 | jq -e '.begin.run == "r" and (.begin.domains | length) == 1 and .begin.ops[0].writes == ["*"]'
	lx-fail --only <marked.lx | lx-fail --replay >other.lx
	same_stream again.lx other.lx
}

@test "lx-fail --replay: leaves out what kept no fields, whatever its cause, and says how many" {
	make_lx >in.lx <<-'END'
		{"begin":{"domains":[{"name":"doc","parent":null,"state":"open"},{"name":"page","parent":0,"state":"gathered"}]}}
		[2,0,[0],3,{"type":"x","message":"","anchor":[0,[0]],"origin":[1,[0,6]]},null,"a"]
		[2,0,[1],3,{"type":"x","message":"","anchor":[0,[1]],"origin":[1,[1,6]]},{"path":"b"},"b"]
		[2,0,[2],1,null,{"path":"c"},"c"]
	END
	lx-fail --replay <in.lx >again.lx 2>err
	says '1 left out'
	canonical again.lx >out
	is '[1,0,[1],{"path":"b"},"b"]'
}

# ---- the edges ----

@test "lx-fail: an empty stream stays one" {
	stage_empty "$CORPUS/good-empty.lx" lx-fail -q --id 0
	stage_empty "$CORPUS/good-empty.lx" lx-fail --only
	stage_empty "$CORPUS/good-empty.lx" lx-fail --replay
	exits 0 lx-fail --list <"$CORPUS/good-empty.lx"
	[[ ! -s out ]]
	exits 0 lx-fail --count <"$CORPUS/good-empty.lx"
	[[ ! -s out ]]
}

@test "lx-fail: cut after any byte it ends with 3, and so does what it wrote" {
	stage_cut "$CORPUS/good-outcomes.lx" lx-fail -q --id 0.0
	make_lx >in.lx <<<'[2,0,[0],2,{"type":"x","message":"","anchor":[0,[0]],"origin":[0,[0]]},{},"a"]'
	stage_cut in.lx lx-fail --only
	stage_cut in.lx lx-fail --replay
}

@test "lx-fail --list: of a stream that is cut off it lists what arrived" {
	seq 0 50000 | sed 's/.*/[2,0,[&],2,{"type":"t","message":"","anchor":[0,[&]],"origin":[0,[&]]},null,&]/; 1000~1000a {"flush":0}' | make_lx >in.lx
	lx-fail --only <in.lx | cat >raw.lx
	head -c 2000000 raw.lx >cut.lx
	exits 3 lx-fail --list <cut.lx
	says truncated
	(($(wc -l <out) > 10000))
	exits 3 lx-fail --count <cut.lx
	says truncated
	grep -q 't$' out
}

@test "lx-fail: a full disk is exit 5" {
	cp "$CORPUS/good-outcomes.lx" in.lx
	stage_full in.lx lx-fail -q --id 0.0
	stage_full in.lx lx-fail --list
	stage_full in.lx lx-fail --count
	stage_full in.lx lx-fail --only
	stage_full in.lx lx-fail --replay --to /dev/full
}

@test "lx-fail: a reader that is gone ends it quietly" {
	cp "$CORPUS/good-outcomes.lx" in.lx
	stage_gone in.lx lx-fail -q --id 0.0
	stage_gone in.lx lx-fail --list
	stage_gone in.lx lx-fail --only
}

@test "lx-fail: two in a row are as one" {
	seq 9 | lx-in --run r --lines >in.lx
	lx-fail --id 1 --id 2 -t odd <in.lx >one.lx
	lx-fail --id 1 -t odd <in.lx | lx-fail --id 2 -t odd >two.lx
	same_stream one.lx two.lx
}

@test "lx-fail: keeps the frames of its input" {
	seq 60000 | lx-in --run r --lines --compress raw >in.lx
	frames() { "$PY" -c '
import lxpeer, sys
b, at = open(sys.argv[1], "rb").read(), 0
while at < len(b):
    if b[at:at + 4] == b"\x28\xb5\x2f\xfd":
        at = lxpeer.frame_end(b, at)
        print("frame")
    else:
        at = lxpeer.open_mark(b, at)[2]' "$1" | wc -l; }
	lx-fail --id 5 <in.lx >out.lx
	[[ $(frames in.lx) == $(frames out.lx) ]]
	(($(frames in.lx) > 5))
}

@test "lx-fail: wrong options are exit 2 and one line" {
	local args
	while read -ra args; do
		exits 2 lx-fail "${args[@]}" <"$CORPUS/good-outcomes.lx"
		says lx-fail
	done <<-'END'
		--list --count
		--list --id 0
		--only --where x==1
		--only --replay
		--json
		--json --only
		-d page
		-d page --replay
		--list message
		--only message
		--id 0 -t Bad
		--id x
		--id 1.
		--id 01
		--id 1..2
		--nonsense
	END
}

@test "lx-fail: what it refuses in the middle of a pipeline is the reason of the whole; inside a command stdout is the item's" {
	for args in '--id 0 -t Bad' '--replay --scope %' '--only message'; do
		# shellcheck disable=SC2086
		exits 2 lx-fail $args <"$CORPUS/good-outcomes.lx"
		mv out in.lx
		exits 2 lx-out -v <in.lx
		says 'lx-fail: '
	done
	LX_FAIL=7 exits 2 lx-fail -t Bad 7>told
	[[ ! -s out && ! -s told ]]
	LX_FAIL=7 exits 2 lx-fail --nonsense 7>told
	[[ ! -s out && ! -s told ]]
}

@test "lx-fail: LX_CHECK writes the marks only, and looks at the shape" {
	export LX_CHECK=1
	stage_empty "$CORPUS/good-outcomes.lx" lx-fail --id 0.0
	stage_empty "$CORPUS/good-outcomes.lx" lx-fail --replay
	exits 0 lx-fail --list <"$CORPUS/good-outcomes.lx"
	[[ ! -s out ]]
	exits 2 lx-fail --id 0 -d nothing <"$CORPUS/good-outcomes.lx"
	says nothing
}

@test "lx-fail: --stats counts what it marked" {
	seq 4 | lx-in --run r --lines | lx-fail --id 1 --id 2 --stats stats >/dev/null
	jq -e '.stage == "lx-fail" and .in.doc.present == 4 and .out.doc.present == 2 and .out.doc.failed == 2' stats
}
