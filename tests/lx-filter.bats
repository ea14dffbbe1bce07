load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf '%s\n' '{"ink":0.5,"lang":"en","n":1}' '{"ink":0.01,"lang":"en","n":2}' '{"ink":0.9,"lang":"de","n":3}' |
		lx-in --run r --jsonl -d page >in.lx
	printf '' | lx-in --run r --jsonl -d page >empty.lx
}

kept() { lx-cat --canonical "$1" | jq -c 'select(.[0] == 1) | .[2]' | tr -d '\n'; }
absent() { lx-cat --canonical "$1" | jq -c "select(.[0] == 2) | ${2:-[.[2], .[3], .[4].type]}"; }
# How many data frames a stream has, by the reader in Python.
frames() {
	"$PY" - "$1" <<'END'
import sys
p, n, at = open(sys.argv[1], 'rb').read(), 0, 0
while at < len(p):
    magic = int.from_bytes(p[at:at + 4], 'little')
    if magic & ~15 == 0x184D2A50:
        at += 8 + int.from_bytes(p[at + 4:at + 8], 'little')
        continue
    assert magic == 0xFD2FB528
    n += 1
    checked, at = p[at + 4] & 4, at + 6
    while True:
        head = int.from_bytes(p[at:at + 3], 'little')
        at += 3 + (1 if head >> 1 & 3 == 1 else head >> 3)
        if head & 1:
            break
    at += 4 if checked else 0
print(n)
END
}

@test "lx-filter: keeps what passes as it came, drops the rest" {
	lx-filter 'ink>0.1' <in.lx >out.lx
	[[ $(kept out.lx) == '[0][2]' ]]
	run absent out.lx '.'
	assert_output --partial '[2,0,[1],1,null,null,'
	lx-cat --canonical in.lx | sed 2d >want
	lx-cat --canonical out.lx | sed 2d | diff want -
	run bash -c 'lx-cat --json out.lx | head -1 | jq -c ".begin.ops[-1] | [.tool, .reads, .writes, .drops]"'
	assert_output '["lx-filter",["ink"],[],[]]'
}

@test "lx-filter: all tests must hold, --not turns the answer round" {
	lx-filter 'ink>0.1' 'lang==en' <in.lx >out.lx
	[[ $(kept out.lx) == '[0]' ]]
	lx-filter --not 'ink>0.1' 'lang==en' <in.lx >out.lx
	[[ $(kept out.lx) == '[1][2]' ]]
	lx-filter 'lang=~^[de]+$' 'n != 3' <in.lx >out.lx
	[[ $(kept out.lx) == '' ]]
}

@test "lx-filter: numbers are compared exactly" {
	printf '{"n":%s}\n' 18446744073709551615 18446744073709551614 9007199254740993 9007199254740992 -9223372036854775808 1e400 |
		lx-in --jsonl -d n >n.lx
	lx-filter 'n>18446744073709551614' <n.lx >out.lx
	[[ $(kept out.lx) == '[0][5]' ]]
	lx-filter 'n==9007199254740992.0' <n.lx >out.lx
	[[ $(kept out.lx) == '[3]' ]]
	lx-filter 'n<-9223372036854775807' <n.lx >out.lx
	[[ $(kept out.lx) == '[4]' ]]
	lx-filter 'n>1e308' <n.lx >out.lx
	[[ $(kept out.lx) == '[5]' ]]
}

@test "lx-filter: a missing field and a value without order fail the item, unless a test before says no" {
	printf '%s\n' '{"lang":"en"}' '{"lang":5}' '{"x":1}' | lx-in --jsonl -d d >d.lx
	lx-filter 'lang<z' <d.lx >out.lx
	[[ $(kept out.lx) == '[0]' ]]
	run absent out.lx
	assert_output $'[[1],2,"bad-field"]\n[[2],2,"no-field"]'
	# failed items keep their fields
	run absent out.lx '.[5]'
	assert_output $'{"lang":5}\n{"x":1}'
	lx-filter '?lang' 'lang==en' <d.lx >out.lx
	run absent out.lx
	assert_output $'[[1],1,null]\n[[2],1,null]'
}

@test "lx-filter: takes fields away from what it keeps" {
	lx-filter --drop ink,n 'n<3' <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[0] == 1) | .[3]'"
	assert_output $'{"lang":"en"}\n{"lang":"en"}'
	run absent out.lx '.[5]'
	assert_output null
}

@test "lx-filter: a dropped item takes what is below it along" {
	printf 'a b\nc d\n' | lx-in --lines -d text | lx-expand --keep -d w -s delim:' ' >w.lx
	lx-filter -d text 'data==a b' <w.lx | lx-filter 'data!=b' >out.lx
	run absent out.lx '[.[1], .[2], .[3]]'
	assert_output $'[0,[1],1]\n[1,[0,1],1]\n[1,[1,0],1]\n[1,[1,1],1]'
}

@test "lx-filter: below a barrier nothing is tested" {
	printf 'a b\nc d\n' | lx-in --lines -d text | lx-expand --keep -d w -s delim:' ' |
		lx-fail -d text --id 0 -t bad broken >w.lx
	lx-filter -- sh -c 'echo >>ran' <w.lx >out.lx
	[[ $(wc -l <ran) == 2 && $(kept out.lx) == '[1][1,0][1,1]' ]]
	run absent out.lx
	assert_output $'[[0],2,"bad"]\n[[0,0],3,"bad"]\n[[0,1],3,"bad"]'
}

@test "lx-filter: frames stay as they are, and those without work are not opened" {
	seq 1000 | lx-in --lines -d line --compress raw | lx-batch -n 10 >b.lx
	[[ $(frames b.lx) == 100 ]]
	lx-filter 'data!=5' <b.lx >out.lx
	[[ $(frames out.lx) == 100 ]]
	lx-filter -j2 -- true <b.lx >out.lx
	[[ $(frames out.lx) == 100 ]]
	same_stream b.lx out.lx
	# a frame whose hint lies is found by who opens it, not by who forwards it
	cat >lines <<'END'
{"begin":{"run":"r","domains":["doc","page"],"ops":[{"tool":"t","host":"h","domain":0,"reads":[],"writes":["x"],"drops":[]},{"tool":"t","host":"h","domain":1,"reads":[],"writes":["x"],"drops":[]}]}}
{"hint":{"counts":[[0,2,0,0,0,0]]}}
[1,0,[0],{"x":1},0]
END
	"$PY" "$ROOT/tests/lxpeer.py" make raw <lines >lie.lx
	exits 3 lx-filter -d doc --not 'x==2' <lie.lx
	lx-filter -d page 'x==2' <lie.lx >out.lx 2>err || true
	exits 3 lx-cat --json out.lx
	says hint
}

@test "lx-filter: a command keeps with 0, drops with 1, and fails with anything else" {
	lx-filter -i n -- sh -c 'read -r n; exit $((n - 1))' <in.lx >out.lx
	[[ $(kept out.lx) == '[0]' ]]
	run absent out.lx '[.[2], .[3], .[4].type, .[4].message]'
	assert_output $'[[1],1,null,null]\n[[2],2,"exit","exit status 2"]'
	lx-filter --not -i n -- sh -c 'read -r n; exit $((n - 1))' <in.lx >out.lx
	[[ $(kept out.lx) == '[1]' ]]
	lx-filter --drop ink -j3 -- grep -q . <in.lx >out.lx
	[[ $(kept out.lx) == '' && $(absent out.lx | grep -c ',1,null') == 3 ]] # no data: nothing on stdin
	lx-filter --drop ink -j3 -i lang -- grep -q . <in.lx >out.lx
	[[ $(kept out.lx) == '[0][1][2]' ]]
	run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[0] == 1) | .[3]' | grep -c ink"
	assert_output 0
}

@test "lx-filter: a command may raise a failure, ask for another try, or die" {
	lx-filter -- sh -c 'lx-fail -t torn "page is torn"; exit 1' <in.lx >out.lx
	run absent out.lx '[.[3], .[4].type, .[4].message]'
	assert_line --index 0 '[2,"torn","page is torn"]'
	printf 'x\n' | lx-in --lines -d line >one.lx
	lx-filter --retry 3 --stats stats -- sh -c 'echo >>tries; [ $(wc -l <tries) -ge 3 ] || exit 75; exit 1' <one.lx >out.lx
	run absent out.lx
	assert_output '[[0],1,null]'
	run jq -c '[.commands, .retried, .out.line.dropped]' stats
	assert_output '[3,2,1]'
	lx-filter --retry 0 -- sh -c 'kill -9 $$' <one.lx >out.lx
	run absent out.lx
	assert_output '[[0],2,"crash"]'
	lx-filter --retry 0 --timeout 200ms -- sleep 600 <one.lx >out.lx
	run absent out.lx
	assert_output '[[0],2,"timeout"]'
}

@test "lx-filter: what a command writes is thrown away, however much" {
	lx-filter -- sh -c 'head -c 5000000 /dev/zero' <in.lx >out.lx
	same_stream in.lx out.lx
}

@test "lx-filter: large payloads pass unharmed" {
	head -c 3000000 /dev/urandom >a && head -c 1000000 /dev/urandom >b
	printf 'a\nb\na\n' | lx-in --read -d file --compress raw >f.lx
	lx-filter 'path=~.' <f.lx >out.lx
	same_stream f.lx out.lx
	lx-filter --not 'path==b' <f.lx >out.lx
	[[ $(kept out.lx) == '[0][2]' ]]
	lx-filter --drop path 'path==b' <f.lx >out.lx
	[[ $(kept out.lx) == '[1]' ]]
	lx-cat --canonical out.lx | jq -r 'select(.[0] == 1) | .[3].data["$bin"]' | base64 -d | cmp - b
}

@test "lx-filter: a slow source leaves nothing stuck" {
	mkfifo in
	bg sh -c 'exec lx-filter "data!=x" <in >out.lx'
	exec 7>in
	printf 'a\n' | lx-in --lines -d line --compress raw >a.lx
	head -c -20 a.lx >&7 # all but a part of the end mark
	a_there() { lx-cat --json out.lx 2>/dev/null | grep -q '"a"'; }
	wait_for 20 a_there
	tail -c 20 a.lx >&7
	exec 7>&-
	wait "$PID"
	same_stream a.lx out.lx
}

@test "lx-filter: shape errors are found before anything is tested" {
	exits 2 lx-filter 'nothing>1' <(printf 'x\n' | lx-in --lines -d line)
	printf 'x\n' | lx-in --lines -d line >l.lx
	exits 2 lx-filter 'nothing>1' <l.lx
	says "field 'nothing'" data
	exits 2 lx-filter '?nothing' <l.lx
	says "field 'nothing'"
	exits 2 lx-filter --drop nothing 'data==x' <l.lx
	says --drop
	exits 2 lx-filter -d page 'data==x' <l.lx
	says "no domain 'page'"
	exits 2 lx-filter -i nothing -- touch ran <l.lx
	says "field 'nothing'"
	exits 2 lx-filter -- touch ran {nothing} <l.lx
	says '{{nothing}}'
	exits 2 lx-filter -- no-such-command <l.lx
	says no-such-command
	lx-filter --drop data 'data==x' <l.lx >dropped.lx
	exits 2 lx-filter 'data==x' <dropped.lx
	says "field 'data'"
	[[ ! -e ran ]]
}

@test "lx-filter: bad options and bad tests" {
	exits 2 lx-filter <in.lx
	says TEST
	exits 2 lx-filter -- <in.lx
	says TEST
	exits 2 lx-filter 'ink=1' <in.lx
	says '=='
	exits 2 lx-filter ink <in.lx
	says ink
	exits 2 lx-filter 'lang=~(' <in.lx
	says "'lang=~('"
	exits 2 lx-filter -j2 'ink>1' <in.lx
	says -j COMMAND
	exits 2 lx-filter -i ink 'ink>1' <in.lx
	says -i COMMAND
	exits 2 lx-filter --no-such-option 'ink>1' <in.lx
	says --no-such-option
}

@test "lx-filter: LX_CHECK stops after the marks" {
	LX_CHECK=1 lx-filter -- touch ran <in.lx >out.lx
	[[ ! -e ran && $(lx-cat --canonical out.lx | wc -l) == 0 ]]
	LX_CHECK=1 exits 2 lx-filter 'nothing==1' <dropped.lx 2>/dev/null || true
	printf 'x\n' | lx-in --lines -d line >l.lx
	LX_CHECK=1 exits 2 lx-filter 'nothing==1' <l.lx
}

@test "lx-filter: what two stages do, one does" {
	lx-filter 'ink>0.1' <in.lx | lx-filter 'lang==en' >two.lx
	lx-filter 'ink>0.1' 'lang==en' <in.lx >one.lx
	same_stream one.lx two.lx
}

@test "lx-filter: the standard checks of every stage" {
	stage_empty empty.lx lx-filter 'n>1'
	stage_empty empty.lx lx-filter -- true
	stage_cut in.lx lx-filter 'n>1'
	stage_cut in.lx lx-filter -- true
	stage_full in.lx lx-filter 'n>1'
	stage_gone in.lx lx-filter 'n>1'
	stage_full in.lx lx-filter -- true
	stage_gone in.lx lx-filter -- true
}
