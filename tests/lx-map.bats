load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf 'one two\nthree\n\n' | lx-in --run r --lines -d line >in.lx
	printf '' | lx-in --run r --lines -d line >empty.lx
}

# Selected parts of the records, a line each.
items() { lx-cat --canonical "$1" | jq -c "select(.[0] == 1) | ${2:-.[3]}"; }
absent() { lx-cat --canonical "$1" | jq -c "select(.[0] == 2) | ${2:-[.[2], .[3], .[4].type]}"; }
# A stream of N items of domain line, without payload to speak of.
lines() { seq "$1" | lx-in --run r --lines -d line; }

@test "lx-map: the payload is stdin, the output a new field" {
	lx-map -o words:int -- wc -w <in.lx >out.lx
	run items out.lx
	assert_output $'{"data":"one two","words":2}\n{"data":"three","words":1}\n{"data":"","words":0}'
	run bash -c 'lx-cat --json out.lx | head -1 | jq -c ".begin.ops[-1] | [.tool, .domain, .reads, .writes, .drops]"'
	assert_output '["lx-map",0,["data"],["words"],[]]'
}

@test "lx-map: without -o the output is the new payload, byte for byte" {
	printf 'a\n\n\0b\n' >bytes
	printf '\377\n' >bin
	printf 'bytes\nbin\n' | lx-in --read -d file >f.lx
	lx-map cat <f.lx >out.lx
	same_stream f.lx out.lx
	lx-map cat <in.lx >out.lx
	same_stream in.lx out.lx
	lx-map -- printf 'x\n' <in.lx >out.lx
	run items out.lx
	assert_output $'{"data":"x\\n"}\n{"data":"x\\n"}\n{"data":"x\\n"}'
	lx-map -- printf '\377' <in.lx >out.lx
	run items out.lx
	assert_line --index 0 '{"data":{"$bin":"/w=="}}'
}

@test "lx-map: each type is read as it says" {
	printf '%s\0' $'  -9223372036854775808 \n' 18446744073709551615 +7 007 |
		lx-in -0 --lines -d n | lx-map -o v:int cat | lx-cat --canonical >out
	run jq -c 'select(.[0] == 2)' out
	assert_output ''
	grep -q '"v":-9223372036854775808}' out && grep -q '"v":18446744073709551615}' out
	[[ $(grep -c '"v":7}' out) == 2 ]]
	printf '%s\n' 1.5 3 1e-400 nan -inf 0.1 | lx-in --lines -d n | lx-map -o v:float cat | lx-cat --canonical >out
	run sed 's/.*"v":\(.*\)},.*/\1/' out
	assert_output $'1.5\n3.0\n0.0\n{"$float":"nan"}\n{"$float":"-inf"}\n0.1'
	printf '%s\n' '{"a":[1,{"$bin":"/w=="}]}' '"x"' 'null' '123456789012345678901' | lx-in --lines -d n | lx-map -o v:json cat |
		lx-cat --canonical >out
	grep -q '"v":{"a":\[1,{"$bin":"/w=="}\]}}' out && grep -q '"v":"x"}' out && grep -q '"v":null}' out
	grep -q '"v":123456789012345678901}' out
	printf '\377' >bin && printf 'x\n\n' >text
	printf 'bin\ntext\n' | lx-in --read -d f >f.lx
	lx-map -o v:bin cat <f.lx >out.lx
	run items out.lx '.[3].v'
	assert_output $'{"$bin":"/w=="}\n{"$bin":"eAoK"}'
	lx-map -o v:str cat <f.lx >out.lx
	run items out.lx '.[3].v'
	assert_output '"x\n"'
	run absent out.lx
	assert_output '[[0],2,"bad-output"]'
	lx-map -o v cat <f.lx >out.lx
	run items out.lx '.[3].v'
	assert_output $'{"$bin":"/w=="}\n"x\\n"'
}

@test "lx-map: output that is not of its type fails the item" {
	printf '%s\n' '' x 1.0 '1 2' 18446744073709551616 -9223372036854775809 - | lx-in --lines -d n >n.lx
	lx-map -o v:int cat <n.lx >out.lx
	run absent out.lx '[.[3], .[4].type]'
	assert_output "$(for i in 1 2 3 4 5 6 7; do echo '[2,"bad-output"]'; done)"
	printf '%s\n' '' x 1e400 1,5 | lx-in --lines -d n | lx-map -o v:float cat >out.lx
	[[ $(absent out.lx | grep -c bad-output) == 4 ]]
	printf '%s\n' '' '{"a":1,"a":2}' '[1' '1 2' | lx-in --lines -d n | lx-map -o v:json cat >out.lx
	[[ $(absent out.lx | grep -c bad-output) == 4 ]]
	absent out.lx '.[4].message' | grep -q 'line 1 column'
	printf '1\n' | lx-in --lines -d n | lx-map -o v:int -- printf '1\0' >out.lx
	[[ $(absent out.lx | grep -c bad-output) == 1 ]]
	# failed items keep their fields
	run absent out.lx '.[5]'
	assert_output '{"data":"1"}'
}

@test "lx-map: sends any field, values that are no strings as text or JSON" {
	printf '{"n":18446744073709551615,"f":0.5,"b":true,"z":null,"a":[1,"x"]}\n' | lx-in --jsonl -d doc >doc.lx
	for f in n f b z a; do lx-map -i $f -o v cat <doc.lx | lx-cat --canonical | sed 's/.*"v"://' ; done >out
	run cat out
	assert_line --index 0 --partial '"18446744073709551615"'
	assert_line --index 1 --partial '"0.5"'
	assert_line --index 2 --partial '"true"'
	assert_line --index 3 --partial '""'
	assert_line --index 4 --partial '"[1,\"x\"]"'
}

@test "lx-map: an item without the field it is asked to send fails, by default it is sent nothing" {
	printf '{"a":1}\n{"data":"d"}\n' | lx-in --jsonl -d doc >doc.lx
	lx-map -i a -o v cat <doc.lx >out.lx
	run absent out.lx '[.[2], .[4].type, .[4].message]'
	assert_output '[[1],"no-field","no field '"'a'"'"]'
	lx-map -o v cat <doc.lx >out.lx
	run items out.lx '.[3].v'
	assert_output $'""\n"d"'
	printf 'a\n' | lx-in -d doc | lx-map -o v -- readlink /proc/self/fd/0 >out.lx
	run items out.lx '.[3].v'
	assert_output '"/dev/null"'
}

@test "lx-map: ids, keys and fields reach the command, templates within one argument" {
	printf 'a b\n' | lx-in --run r7 --key data --lines -d text | lx-expand --keep -d w -s delim:' ' --carry data >w.lx
	lx-map -o v --env data -- sh -c 'echo "$1|$LX_ID|$LX_ORDINAL|$LX_DOMAIN|$LX_RUN_ID|$LX_FIELD_data|$LX_KEY"' sh '<{id} {ordinal}>' <w.lx >out.lx
	run items out.lx 'select(.[1] == 1) | .[3].v'
	assert_output $'"<0.0 0>|0.0|0|w|r7|a|"\n"<0.1 1>|0.1|1|w|r7|b|"'
	lx-map -d text -o v -- sh -c 'echo "$1 $LX_KEY"' sh {key} <w.lx >out.lx
	run items out.lx 'select(.[1] == 0) | .[3].v'
	assert_output '"a b a b"'
}

@test "lx-map: field values are never code and never options" {
	printf '%s\0' '$(touch hacked)' '; touch hacked' '`touch hacked`' $'two\nlines' '-rf' $'\xff' '{id}' >names
	lx-in -0 -d f <names >f.lx
	lx-map -o v:bin -- printf '%s|' {path} <f.lx >out.lx
	items out.lx '.[3].v["$bin"]' | tr -d '"' | while read -r b; do base64 -d <<<"$b"; done >got
	printf '%s|' '$(touch hacked)' '; touch hacked' '`touch hacked`' $'two\nlines' './-rf' $'\xff' '{id}' | cmp - got
	[[ ! -e hacked ]]
	exits 2 lx-map -o v -- sh -c 'cat {path}' <f.lx
	says LX_FIELD_path
	# a NUL cannot be an argument
	printf '{"path":"a\\u0000b"}\n' | lx-in --jsonl -d f | lx-map -o v -- echo {path} >out.lx
	run absent out.lx
	assert_output '[[0],2,"bad-field"]'
}

@test "lx-map: the fields to drop are gone after use, from those that succeeded" {
	lx-map --drop data -o n:int -- sh -c 'read -r l; [ -n "$l" ] && echo 1' <in.lx >out.lx
	run items out.lx
	assert_output $'{"n":1}\n{"n":1}'
	run absent out.lx '.[5]'
	assert_output '{"data":""}'
	exits 2 lx-map --drop data -o data cat <in.lx
	says --drop -o
}

@test "lx-map: an exit status is a verdict on its item alone" {
	lx-map -o v -- sh -c 'read -r l; echo "about $l" >&2; [ "$l" != three ] || exit 3' <in.lx >out.lx 2>err
	run items out.lx '.[2]'
	assert_output $'[0]\n[2]'
	run absent out.lx '[.[2], .[3], .[4].type, .[4].message, .[4].stage]'
	assert_output '[[1],2,"exit","exit status 3: about three","lx-map"]'
	[[ $(sort err) == $'about \nabout one two\nabout three' ]]
	lx-map -q -o v -- sh -c 'echo loud >&2; exit 9' <in.lx >out.lx 2>err
	[[ ! -s err && $(absent out.lx | wc -l) == 3 ]]
}

@test "lx-map: exit 75 is tried again until it succeeds, and fails in the end" {
	lines 1 >one.lx
	lx-map --retry 3 -o v -- sh -c 'echo >>tries; [ $(wc -l <tries) -ge 3 ] || exit 75; echo done' <one.lx >out.lx
	run items out.lx '.[3].v'
	assert_output '"done"'
	[[ $(wc -l <tries) == 3 ]]
	rm tries
	lx-map --retry 1 -o v --stats stats -- sh -c 'echo >>tries; echo busy >&2; exit 75' <one.lx >out.lx 2>/dev/null
	[[ $(wc -l <tries) == 2 ]]
	run absent out.lx '[.[4].type, .[4].message]'
	assert_output '["exit","exit status 75: busy"]'
	run jq -c '[.commands, .retried, .in.line.present, .out.line.failed]' stats
	assert_output '[2,1,1,1]'
	# attempt is counted, though no part of equality
	run bash -c 'lx-cat --json out.lx | jq -c "select(type == \"array\") | .[4].attempt"'
	assert_output 2
}

@test "lx-map: a death by signal is tried again, then it is a crash" {
	lines 1 >one.lx
	lx-map --retry 2 -o v -- sh -c 'echo >>tries; kill -9 $$' <one.lx >out.lx
	[[ $(wc -l <tries) == 3 ]]
	run absent out.lx '[.[4].type, .[4].message]'
	assert_output '["crash","killed by SIGKILL"]'
	rm tries
	lx-map -o v -- sh -c 'echo >>tries; [ -e again ] || { touch again; kill -9 $$; }; echo ok' <one.lx >out.lx
	run items out.lx '.[3].v'
	assert_output '"ok"'
	[[ $(wc -l <tries) == 2 ]]
}

@test "lx-map: a command over its time is killed with all that it started" {
	lines 1 | lx-map --retry 0 --timeout 200ms -o v -- sh -c 'sleep 600 & echo $! >pid; sleep 600' >out.lx
	run absent out.lx
	assert_output '[[0],2,"timeout"]'
	wait_for 10 gone "$(cat pid)"
}

@test "lx-map: lx-fail gives type, message and scope, whatever status follows" {
	printf 'a b c\nd e\n' | lx-in --lines -d text | lx-expand -d w -s delim:' ' >w.lx
	lx-map -o v -- sh -c 'read -r l; echo ran >>ran; [ "$l" != b ] || lx-fail -t bad-word "cannot do $l"; echo v' <w.lx >out.lx
	run absent out.lx '[.[2], .[3], .[4].type, .[4].message, .[4].anchor]'
	assert_line --index 0 '[[0,1],2,"bad-word","cannot do b",[1,[0,1]]]'
	# the plain descriptor, another scope, a bad status
	lx-map -o v -- bash -c 'printf "bad-text\tparent\tgone\n" >&$LX_FAIL; exit 75' <w.lx >out.lx
	run absent out.lx '[.[3], .[4].type, .[4].anchor]'
	assert_line --index 0 '[2,"bad-text",[0,[0]]]'
	assert_line --index 1 '[3,"bad-text",[0,[0]]]'
}

@test "lx-map: once a parent is lost, its other children are not started" {
	seq 100 | tr '\n' ' ' | sed 's/ $//' | lx-in --lines -d text | lx-expand -d w -s delim:' ' >w.lx
	lx-map --stats stats -o v -- sh -c 'echo >>ran; lx-fail -t bad --scope parent no' <w.lx >out.lx
	[[ $(wc -l <ran) == 1 ]]
	[[ $(absent out.lx | grep -c ',3,"bad"\]') == 99 ]]
	run jq -c '[.commands, .withdrawn + .barred, .out.w.failed, .out.w.suppressed]' stats
	assert_output '[1,99,1,99]'
	# a plain failure of a child is enough where none is borne
	rm ran
	lx-map -o v -- sh -c 'echo >>ran; exit 1' <w.lx >out.lx
	[[ $(wc -l <ran) == 1 ]]
	# and is not where some are
	printf '1 2 3 4 5 6\n' | lx-in --lines -d text | lx-expand --tolerate 2 -d w -s delim:' ' >w.lx
	rm ran
	lx-map -o v -- sh -c 'echo >>ran; exit 1' <w.lx >out.lx
	[[ $(wc -l <ran) == 3 ]]
}

@test "lx-map: the first child of each parent goes ahead of the others" {
	printf '1 2 3\n4 5 6\n' | lx-in --lines -d text | lx-expand -d w -s delim:' ' >w.lx
	lx-map -o v -- sh -c 'echo "$LX_ID" >>ran; [ "$LX_ORDINAL" != 0 ]' <w.lx >out.lx
	run cat ran
	assert_output $'0.0\n1.0'
	[[ $(absent out.lx | grep -c ',3,"exit"') == 4 ]]
}

@test "lx-map: below a barrier in the stream nothing is started" {
	printf '1 2\n3 4\n' | lx-in --lines -d text | lx-expand -d w -s delim:' ' >w.lx
	lx-map -o v -- sh -c 'echo >>ran; [ "$LX_ID" != 0.0 ] || lx-fail -t t --scope parent m' <w.lx >out1.lx
	n=$(wc -l <ran)
	lx-map -o v2 -- sh -c 'echo >>ran2' <out1.lx >out2.lx
	[[ $n == 3 && $(wc -l <ran2) == 2 ]]
	[[ $(absent out2.lx | wc -l) == 2 ]]
	# dropped ones take what is below them along
	lx-filter -d text 'data!=x' --drop data <w.lx >/dev/null || true
	printf '1 2\n3 4\n' | lx-in --lines -d text | lx-expand --keep -d w -s delim:' ' | lx-filter -d text 'data==1 2' |
		lx-map -o v -- sh -c 'echo >>ran3' >out.lx
	[[ $(wc -l <ran3) == 2 && $(absent out.lx '.[3]' | sort -u) == 1 ]]
}

@test "lx-map: the result of a command whose parent was lost meanwhile is discarded, its own failure stays" {
	printf '1 2 3 4\n' | lx-in --lines -d text | lx-expand -d w -s delim:' ' >w.lx
	mkfifo go0 go1 go2 go3
	cat >work <<'END'
		echo >started$LX_ORDINAL; read -r _ <go$LX_ORDINAL
		case $LX_ORDINAL in
		0) lx-fail -t first --scope parent m ;;
		1) echo fine ;;
		2) exit 4 ;;
		3) kill -9 $$ ;; # no failure of its own: it would be run again
		esac
END
	bg sh -c 'exec lx-map -j4 --stats stats -o v -- sh work <w.lx >out.lx'
	all() { [[ -e started0 && -e started1 && -e started2 && -e started3 ]]; }
	wait_for 20 all
	echo >go0
	first_left() { lx-cat --json out.lx 2>/dev/null | grep -q '"first"'; }
	wait_for 20 first_left
	echo >go1
	echo >go2
	echo >go3
	wait "$PID"
	run absent out.lx
	assert_output $'[[0,0],2,"first"]\n[[0,1],3,"first"]\n[[0,2],2,"exit"]\n[[0,3],3,"first"]'
	[[ $(jq .discarded stats) == 2 ]]
}

@test "lx-map: other records pass at once while a command runs" {
	mkfifo go
	printf '1 2\n' | lx-in --lines -d text | lx-expand -d w -s delim:' ' |
		lx-map -d text -o v -- sh -c 'read -r _ <go' >out.lx 3>&- &
	BG+=($!)
	children_there() { [[ $(lx-cat --json out.lx 2>/dev/null | jq -c 'select(type == "array" and .[1] == 1)' | wc -l) == 3 ]]; }
	wait_for 20 children_there
	echo >go
	wait $!
}

@test "lx-map: results leave while others run" {
	mkfifo go
	lines 2 | lx-map -j2 -o v -- sh -c '[ "$LX_ID" = 0 ] && read -r _ <go; echo v' >out.lx 3>&- &
	BG+=($!)
	second_there() { lx-cat --json out.lx 2>/dev/null | grep -q '^\[1,0,\[1\]'; }
	wait_for 20 second_there
	echo >go
	wait $!
	[[ $(items out.lx | wc -l) == 2 ]]
}

@test "lx-map: commands that do not read, write before they read, or flood stderr" {
	head -c 3000000 /dev/zero | tr '\0' x >big
	printf 'big\n' | lx-in --read -d f >f.lx
	lx-map -o v:int -- echo 5 <f.lx >out.lx
	run items out.lx '.[3].v'
	assert_output 5
	lx-map -o v:int -- sh -c 'head -c 3000000 /dev/zero | tr "\0" y; cat >/dev/null' <f.lx >out.lx
	run absent out.lx '.[4].type'
	assert_output '"bad-output"'
	lx-map -o v:int -- sh -c 'head -c 3000000 big >&2; wc -c' <f.lx >out.lx 2>err
	run items out.lx '.[3].v'
	assert_output 3000000
	[[ $(wc -c <err) == 3000001 ]]
	lx-map -o data:bin cat <f.lx >out.lx
	same_stream f.lx out.lx
}

@test "lx-map: output over the limit of a record fails the item as oversize" {
	printf '1\n2\n' | lx-in --max-record 100000 --lines -d line |
		lx-map --max-record 100000 -o v -- sh -c '[ "$LX_ID" = 0 ] || exec yes; echo v' >out.lx
	run absent out.lx
	assert_output '[[1],2,"oversize"]'
	# the output is below it, the record with it is not
	printf '1\n' | lx-in --max-record 100000 --lines -d line |
		lx-map --max-record 100000 -o v -- sh -c 'head -c 99999 /dev/zero | tr "\0" x' >out.lx
	run absent out.lx
	assert_output '[[0],2,"oversize"]'
}

@test "lx-map: any number of jobs gives the same result" {
	lines 200 >l.lx
	lx-map -o v -- sh -c 'read -r n; [ $((n % 7)) != 0 ] || exit 1; echo $((n * n))' <l.lx >a.lx
	lx-map -j4 -o v -- sh -c 'read -r n; [ $((n % 7)) != 0 ] || exit 1; echo $((n * n))' <l.lx >b.lx
	same_stream a.lx b.lx
	[[ $(items a.lx | wc -l) == 172 ]]
}

@test "lx-map: with several jobs libraries are told to use one thread" {
	unset OMP_NUM_THREADS OMP_THREAD_LIMIT
	lines 1 >one.lx
	lx-map -j2 -o v -- sh -c 'echo "$OMP_NUM_THREADS $OMP_THREAD_LIMIT"' <one.lx >out.lx
	run items out.lx '.[3].v'
	assert_output '"1 1"'
	OMP_NUM_THREADS=3 lx-map -j2 -o v -- sh -c 'echo "$OMP_NUM_THREADS $OMP_THREAD_LIMIT"' <one.lx >out.lx
	run items out.lx '.[3].v'
	assert_output '"3 1"'
	lx-map -o v -- sh -c 'echo "$OMP_NUM_THREADS"' <one.lx >out.lx
	run items out.lx '.[3].v'
	assert_output '""'
}

@test "lx-map: works one domain and leaves the others alone" {
	printf '1 2\n' | lx-in --lines -d text | lx-expand --keep -d w -s delim:' ' >w.lx
	lx-map -d text -o n:int -- wc -w <w.lx >out.lx
	run items out.lx
	assert_output $'{"data":"1 2","n":2}\n{"data":"1"}\n{"data":"2"}'
}

@test "lx-map: segments of several runs stay apart" {
	printf 'a\n' | lx-in --run r1 --lines -d line >1.lx
	printf 'b\nc\n' | lx-in --run r2 --lines -d other >2.lx
	cat 1.lx 2.lx | lx-map --stats stats -o v tr a-z A-Z >out.lx
	run items out.lx '.[3].v'
	assert_output $'"A"\n"B"\n"C"'
	run jq -c '[.run, .domain, .commands]' stats
	assert_output $'["r1","line",1]\n["r2","other",2]'
}

@test "lx-map: an item that comes twice is worked on twice" {
	lines 3 >l.lx
	cat l.lx l.lx | lx-map -j2 -o v cat >out.lx
	[[ $(items out.lx | wc -l) == 6 ]]
}

@test "lx-map: is a worker on a socketpair" {
	lines 20 >l.lx
	$PY - l.lx >out.lx <<'END'
import socket, subprocess, sys
ours, theirs = socket.socketpair()
p = subprocess.Popen(['lx-map', '-j2', '-o', 'v', 'cat'], stdin=theirs, stdout=theirs)
theirs.close()
ours.sendall(open(sys.argv[1], 'rb').read())
ours.shutdown(socket.SHUT_WR)
while data := ours.recv(65536):
    sys.stdout.buffer.write(data)
sys.exit(p.wait())
END
	lx-map -o v cat <l.lx >want.lx
	same_stream want.lx out.lx
}

@test "lx-map: as a worker of lx-batch it answers every item, and obeys its barriers" {
	lines 100 >l.lx
	lx-batch -n 8 -- lx-map -j2 -o v cat <l.lx >out.lx
	lx-map -o v cat <l.lx >want.lx
	same_stream want.lx out.lx
	# a hint that bars the parent comes with the items: none of its own is started
	cat >lines <<'END'
{"begin":{"run":"r","domains":["doc","page"],"ops":[{"tool":"t","host":"h","domain":1,"reads":[],"writes":["data"],"drops":[]}]}}
[1,1,[0,0],{"data":"a"}]
[1,1,[0,1],{"data":"b"}]
[1,1,[1,0],{"data":"c"}]
{"hint":{"bars":[[0,[0]]]}}
END
	"$PY" "$ROOT/tests/lxpeer.py" make raw <lines >bars.lx
	lx-map -o v -- sh -c 'echo "$LX_ID" >>ran; cat' <bars.lx >out.lx
	[[ $(cat ran) == 1.0 ]]
	run absent out.lx
	assert_output $'[[0,0],3,"cancelled"]\n[[0,1],3,"cancelled"]'
}

@test "lx-map: shape errors are found before a command starts" {
	exits 2 lx-map touch ran {nothing} <in.lx
	says nothing '{{nothing}}'
	exits 2 lx-map -i nothing touch ran <in.lx
	says "field 'nothing'" 'data' -i
	exits 2 lx-map --env nothing touch ran <in.lx
	says --env
	exits 2 lx-map --drop nothing -o v touch ran <in.lx
	says --drop
	exits 2 lx-map -d page touch ran <in.lx
	says "no domain 'page'" line
	exits 2 lx-map no-such-command <in.lx
	says no-such-command
	exits 2 lx-map ./in.lx <in.lx
	says in.lx
	lx-expand -d w -s lines <in.lx | lx-gather >g.lx
	exits 2 lx-map -d w touch ran <g.lx
	says gathered
	lx-map -o v --drop data cat <in.lx >dropped.lx
	exits 2 lx-map -i data touch ran <dropped.lx
	says "field 'data'"
	[[ ! -e ran ]]
	# what was refused is told by the last command too
	mv out refused.lx
	exits 2 lx-cat refused.lx
	[[ $output == *"field 'data'"* ]]
}

@test "lx-map: bad options" {
	exits 2 lx-map <in.lx
	says command
	exits 2 lx-map -o v:number cat <in.lx
	says number float
	exits 2 lx-map -o :int cat <in.lx
	says -o
	exits 2 lx-map -j 0 cat <in.lx
	says -j
	exits 2 lx-map -j 513 cat <in.lx
	says -j
	exits 2 lx-map --timeout 0 cat <in.lx
	says --timeout
	exits 2 lx-map --retry -1 cat <in.lx
	says --retry
	exits 2 lx-map --no-such-option cat <in.lx
	says --no-such-option
}

@test "lx-map: LX_CHECK stops after the marks" {
	LX_CHECK=1 lx-map -- touch ran <in.lx >out.lx
	[[ ! -e ran && $(lx-cat --canonical out.lx | wc -l) == 0 ]]
	LX_CHECK=1 exits 2 lx-map -i nothing -- touch ran <in.lx
}

@test "lx-map: a scope that is none is an error of the command" {
	exits 6 lx-map -o v -- lx-fail --scope nowhere m <in.lx
	says nowhere
	mv out aborted.lx
	exits 6 lx-cat --json aborted.lx
}

@test "lx-map: what two stages do, one does" {
	lx-map -o v -- tr a-z A-Z <in.lx | lx-map -i v -o v -- rev >two.lx
	lx-map -o v -- sh -c 'tr a-z A-Z | rev' <in.lx >one.lx
	same_stream one.lx two.lx
}

@test "lx-map: the standard checks of every stage" {
	stage_empty empty.lx lx-map -o v cat
	stage_cut in.lx lx-map -o v cat
	stage_full in.lx lx-map -o v cat
	stage_gone in.lx lx-map -o v cat
}

@test "lx-map: input cut after whole frames: what runs is finished, what waits gets no verdict" {
	# 30 frames of one item each
	$PY - >cut.lx <<'END'
import subprocess
lines = ['{"begin":{"run":"r","domains":["line"],"ops":[{"tool":"t","host":"h","domain":0,"reads":[],"writes":["data"],"drops":[]}]}}']
for i in range(30):
    lines += ['[1,0,[%d],{"data":"x"},%d]' % (i, i), '{"flush":0}']
out = subprocess.run(['/usr/bin/python3', __import__('os').environ['ROOT'] + '/tests/lxpeer.py', 'make'],
                     input='\n'.join(lines).encode() + b'\n', stdout=subprocess.PIPE, check=True).stdout
__import__('sys').stdout.buffer.write(out[:-1])
END
	exits 3 lx-map -j2 -o v -- sh -c 'echo >>ran; cat' <cut.lx
	says truncated
	got=0
	lx-cat --json out >json 2>/dev/null || got=$?
	[[ $got == 3 ]]
	# everything that was started has its answer, and nothing has two
	[[ $(jq -c 'select(type == "array")' json | wc -l) == $(wc -l <ran) ]]
	[[ $(jq -c 'select(type == "array") | .[0]' json | sort -u) == 1 ]]
}

@test "lx-map: an abort mark is passed on with its reason" {
	lx-map -i nothing cat <in.lx >bad.lx 2>/dev/null || true
	exits 2 lx-map -o v cat <bad.lx
	grep -q "field 'nothing'" err
	mv out aborted.lx
	exits 2 lx-cat aborted.lx
	# in a pipe it is said once
	set +o pipefail
	got=0
	{ lx-map -i nothing cat <in.lx | lx-map -o v cat | lx-map -o w cat >out.lx; } 2>err || got=$?
	[[ $got == 2 && $(wc -l <err) == 1 ]]
}

@test "lx-map: when its reader has gone no command is left" {
	mkfifo pipe
	lines 3 >l.lx
	bg sh -c 'exec lx-map -j2 -o v -- sh -c "echo \$\$ >pid.\$LX_ID; sleep 600 & echo \$! >sleep.\$LX_ID; wait" <l.lx >pipe'
	exec 7<pipe
	both() { [[ -s sleep.0 && -s sleep.1 ]]; }
	wait_for 20 both
	exec 7<&-
	wait_for 20 gone "$PID"
	got=0
	wait "$PID" || got=$?
	[[ $got == 141 ]]
	for p in pid.0 pid.1 sleep.0 sleep.1; do wait_for 10 gone "$(cat $p)"; done
}

@test "lx-map: the first SIGINT lets it finish, a second ends everything at once" {
	mkfifo in go
	bg env --default-signal=INT sh -c 'exec lx-map -o v -- sh -c "echo \$\$ >pid; read -r _ <go; echo v" <in >out.lx 2>err'
	exec 7>in
	cat in.lx >&7
	there() { [[ -s pid ]]; }
	wait_for 20 there
	kill -INT "$PID"
	exec 7>&- 8<>go
	printf '\n\n\n' >&8 # a line for each command
	got=0
	wait "$PID" || got=$?
	exec 8>&-
	[[ $got == 130 ]]
	[[ $(items out.lx | wc -l) == 3 ]]
	rm pid
	bg env --default-signal=INT sh -c 'exec lx-map -o v -- sh -c "echo \$\$ >pid; exec sleep 600" <in.lx >out.lx 2>err'
	wait_for 20 there
	kill -INT "$PID"
	# two of a kind become one while the first is pending
	taken() { grep -qE '^ShdPnd:[[:space:]]*0*$' "/proc/$PID/status"; }
	wait_for 20 taken
	kill -0 "$PID"
	kill -INT "$PID"
	got=0
	wait "$PID" || got=$?
	[[ $got == 130 && ! -s err ]]
	wait_for 10 gone "$(cat pid)"
}

@test "lx-map: SIGTERM kills the commands and what they started" {
	bg sh -c 'exec lx-map -j2 -o v -- sh -c "sleep 600 & echo \$! >sleep.\$LX_ID; wait" <in.lx >out.lx 2>err'
	both() { [[ -s sleep.0 && -s sleep.1 ]]; }
	wait_for 20 both
	kill -TERM "$PID"
	got=0
	wait "$PID" || got=$?
	[[ $got == 143 ]]
	for p in sleep.0 sleep.1; do wait_for 10 gone "$(cat $p)"; done
	exits 3 lx-cat out.lx
}

@test "lx-map: stops reading when enough waits" {
	# Nobody lets the first command go on: of 5 MB in items of 1 KB it must not have taken more than the pipe and 1 MiB.
	mkfifo go
	head -c 5000000 /dev/zero | tr '\0' 'x' | fold -w 1000 | lx-in --lines -d line >l.lx
	cat >feed <<'END'
import os, sys, time
data = open('l.lx', 'rb').read()
os.set_blocking(1, False)
sent = 0
quiet = 0
while sent < len(data) and quiet < 50:
    try:
        sent += os.write(1, data[sent:sent + 65536])
        quiet = 0
    except BlockingIOError:
        quiet += 1
        time.sleep(0.02)
open('sent', 'w').write(str(sent))
END
	lx-cat --compress raw l.lx >raw.lx && mv raw.lx l.lx
	$PY feed 3>&- | lx-map --mem 1M -o v -- sh -c 'read -r _ <go' >out.lx 2>/dev/null 3>&- &
	BG+=($!)
	there() { [[ -s sent ]]; }
	wait_for 30 there
	[[ $(cat sent) -lt 3000000 ]]
}
