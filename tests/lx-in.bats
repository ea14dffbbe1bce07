# lx-in: paths, lines and JSON become root items; what is bad fails alone.
load lib

# records COMMAND...: the canonical form of what it writes, in ./out.
records() {
	"$@" >.lx || fail "exit $?: $*"
	canonical .lx >out || fail "not a complete stream: $*"
}

# is LINES: ./out holds exactly these.
is() {
	diff out - <<<"$1" || fail "not what it should be"
}

# failed N TYPE: the message of item N in ./out, which failed with TYPE.
failed() {
	sed -nE "s/^\[2,0,\[$1\],2,\{\"type\":\"$2\",\"message\":\"(.*)\",\"anchor\":\[0,\[$1\]\],\"origin\":\[0,\[$1\]\],\"stage\":\"lx-in\"\}.*/\1/p" out |
		grep . || fail "item $1 did not fail with $2: $(<out)"
}

begin_mark() { lx-cat --json "$1" | head -1; }

@test "lx-in: makes an item for each line of stdin, the path its field and key" {
	printf 'a.pdf\nb c.pdf\n' >in
	records lx-in <in
	is '[1,0,[0],{"path":"a.pdf"},"a.pdf"]
[1,0,[1],{"path":"b c.pdf"},"b c.pdf"]'
}

@test "lx-in: makes an item for each operand and does not look at the files" {
	records lx-in a b/../c -- -x </dev/null
	is '[1,0,[0],{"path":"a"},"a"]
[1,0,[1],{"path":"b/../c"},"b/../c"]
[1,0,[2],{"path":"--"},"--"]
[1,0,[3],{"path":"-x"},"-x"]'
	records lx-in -- -x
	is '[1,0,[0],{"path":"-x"},"-x"]'
}

@test "lx-in: takes hostile names as they are" {
	printf 'new\nline\0-rf\0 $(touch x) \0caf\xe9\0tab\there\0{path}\0' >in
	records lx-in -0 <in
	is '[1,0,[0],{"path":"new\nline"},"new\nline"]
[1,0,[1],{"path":"-rf"},"-rf"]
[1,0,[2],{"path":" $(touch x) "}," $(touch x) "]
[1,0,[3],{"path":{"$bin":"Y2Fm6Q=="}},{"$bin":"Y2Fm6Q=="}]
[1,0,[4],{"path":"tab\there"},"tab\there"]
[1,0,[5],{"path":"{path}"},"{path}"]'
	[[ ! -e x ]]
}

@test "lx-in: passes over empty lines of paths, and takes a last line without newline" {
	printf 'a\n\n\nb' >in
	records lx-in <in
	is '[1,0,[0],{"path":"a"},"a"]
[1,0,[1],{"path":"b"},"b"]'
}

@test "lx-in: makes a complete empty stream of no input" {
	stage_empty /dev/null lx-in
	stage_empty /dev/null lx-in --lines
	stage_empty /dev/null lx-in --jsonl
	stage_empty /dev/null lx-in -0 --read
}

# ---- --read ----

@test "lx-in --read: reads the files into data" {
	printf 'a\0\xff' >file
	: >-empty
	printf 'file\n-empty\n' >in
	records lx-in --read <in
	is '[1,0,[0],{"path":"file","data":{"$bin":"YQD/"}},"file"]
[1,0,[1],{"path":"-empty","data":{"$bin":""}},"-empty"]'
}

@test "lx-in --read: a file that cannot be read fails its item and no other" {
	mkdir dir
	echo x >good
	printf 'missing\0dir\0good\0' >in
	records lx-in -0 --read <in
	run failed 0 unreadable
	assert_output --partial 'No such file'
	run failed 1 unreadable
	assert_output --partial 'directory'
	grep -qF '"stage":"lx-in"},{"path":"missing"},"missing"]' out
	grep -qF '[1,0,[2],{"path":"good","data":{"$bin":"eAo="}},"good"]' out
}

@test "lx-in --read: a path with a NUL byte is unreadable" {
	printf 'a\0b\n' >in
	: >a
	records lx-in --read <in
	run failed 0 unreadable
	assert_output --partial NUL
}

@test "lx-in --read: a file over --max-record fails oversize, without being held" {
	truncate -s 3G huge
	head -c 5000 /dev/zero >big
	head -c 4900 /dev/zero >small
	records lx-in --read --max-record 5000 huge big small
	run failed 0 oversize
	assert_output --partial --max-record
	run failed 1 oversize
	grep -q '^\[1,0,\[2\],{"path":"small"' out
	sanitized || (ulimit -v 200000 && lx-in --read --max-record 1M huge >/dev/null)
}

@test "lx-in --read: reads a FIFO, and lets go of what is waiting before" {
	mkfifo fifo
	bg sh -c 'lx-in --read file fifo >out.lx'
	echo x >file
	first_is_out() { lx-cat --json out.lx 2>/dev/null | grep -q '"path":"file"'; }
	wait_for 20 test -e out.lx
	wait_for 20 first_is_out
	printf hello >fifo
	wait "$PID"
	canonical out.lx | grep -qF '{"path":"fifo","data":{"$bin":"aGVsbG8="}}'
}

# ---- --lines ----

@test "lx-in --lines: makes an item for each line, empty ones too, from files and stdin" {
	printf 'one\n\nthree\r\n' >a
	printf 'four\0' >b
	records lx-in --lines a - b <<<stdin
	sed -E 's/,"[0-9a-f]{16}"\]$/,HASH]/' out >cut
	diff cut - <<-'END'
		[1,0,[0],{"data":"one"},HASH]
		[1,0,[1],{"data":""},HASH]
		[1,0,[2],{"data":"three\r"},HASH]
		[1,0,[3],{"data":"stdin"},HASH]
		[1,0,[4],{"data":"four\u0000"},HASH]
	END
}

@test "lx-in --lines: a key is the XXH64 of the line, equal lines have equal keys and ids of their own" {
	printf 'abc\nabc\n\xff\n' >in
	records lx-in --lines <in
	is '[1,0,[0],{"data":"abc"},"44bc2cf5ad770999"]
[1,0,[1],{"data":"abc"},"44bc2cf5ad770999"]
[1,0,[2],{"data":{"$bin":"/w=="}},"'"$(sed -nE 's/.*"([0-9a-f]{16})"\]$/\1/p' out | tail -1)"'"]'
}

@test "lx-in --lines: takes the line as the key with --key data, and NUL ends lines with -0" {
	printf 'a\nb\0c\0' >in
	records lx-in --lines -0 --key data <in
	is '[1,0,[0],{"data":"a\nb"},"a\nb"]
[1,0,[1],{"data":"c"},"c"]'
}

@test "lx-in --lines: a line over --max-record fails oversize, the next is taken" {
	{ head -c 3000000 /dev/zero | tr '\0' x; echo; echo short; head -c 2000000 /dev/zero | tr '\0' y; } >in
	records lx-in --lines --max-record 1M <in
	run failed 0 oversize
	assert_output --partial 'line 1: over 1048576 bytes (--max-record)'
	run failed 2 oversize
	grep -q '^\[1,0,\[1\],{"data":"short"}' out
	head -c 3000000 in >line
	grep -qF "\"$(xxhsum -H64 <line 2>/dev/null | cut -d' ' -f1)" out || ! command -v xxhsum
	[[ $(cut -c1-20 out | wc -l) == 3 ]]
}

# ---- --jsonl ----

@test "lx-in --jsonl: the members are the fields, exactly" {
	cat >in <<-'END'
		{"i":18446744073709551615,"n":-9223372036854775808,"big":123456789012345678901234567890}
		  {"f":1.0,"e":1e400,"z":-0.0,"s":"\u00e9\ud800","a":[1,[],{}],"t":true,"x":null}

		{}
	END
	records lx-in --jsonl <in
	sed -E 's/,"[0-9a-f]{16}"\]$/]/' out >cut
	diff cut - <<-'END'
		[1,0,[0],{"i":18446744073709551615,"n":-9223372036854775808,"big":123456789012345678901234567890}]
		[1,0,[1],{"f":1.0,"e":1e400,"z":-0.0,"s":{"$str":"w6ntoIA="},"a":[1,[],{}],"t":true,"x":null}]
		[1,0,[2],{}]
	END
}

@test "lx-in --jsonl: a bad line fails bad-json with file, line and column, the others are taken" {
	printf '%s\n' '{"a":1}' '{"a":' '[1]' '{"a":1,"a":2}' '"text"' '{"a":1} x' $'{"a":"\t"}' '{"b":2}' >in.jsonl
	records lx-in --jsonl in.jsonl
	run failed 1 bad-json
	assert_output 'in.jsonl: line 2 column 6: expected a value, found the end'
	run failed 2 bad-json
	assert_output --partial 'line 3 column 1: not an object'
	run failed 3 bad-json
	assert_output --partial 'line 4 column 8'
	run failed 4 bad-json
	run failed 5 bad-json
	assert_output --partial 'line 6 column 9'
	run failed 6 bad-json
	[[ $(grep -c '^\[1,' out) == 2 ]]
}

@test "lx-in --jsonl: a last line that was cut off fails bad-json" {
	printf '{"a":1}\n{"a":2}' >whole
	local n
	for ((n = 9; n < 15; n++)); do
		head -c "$n" whole >in
		records lx-in --jsonl <in
		failed 1 bad-json
	done
	records lx-in --jsonl <whole
	[[ $(grep -c '^\[1,' out) == 2 ]]
}

@test "lx-in --jsonl: nesting and fields over the limits fail their item" {
	{ printf '{"a":%s}\n' "$(printf '[%.0s' {1..40})$(printf ']%.0s' {1..40})"
	  printf '{"a":%s}\n' "$(printf '[%.0s' {1..30})$(printf ']%.0s' {1..30})"
	  printf '{"a":%s}\n' "$(printf '[%.0s' {1..31})$(printf ']%.0s' {1..31})"
	  seq 1 5000 | sed 's/.*/"&":0/' | paste -sd, | sed 's/.*/{&}/'; } >in
	records lx-in --jsonl <in
	run failed 0 bad-json
	assert_output --partial --max-depth
	grep -q '^\[1,0,\[1\],' out
	failed 2 bad-json
	run failed 3 oversize
	assert_output --partial --max-fields
}

@test "lx-in --jsonl: --key takes a field, whatever its type; an item without it fails no-field and keeps its fields" {
	printf '%s\n' '{"k":7,"a":1}' '{"k":"7"}' '{"k":{"$bin":"Nw=="}}' '{"a":1}' '{"k":[1,null]}' >in
	records lx-in --jsonl --key k <in
	grep -qF '{"k":7,"a":1},7]' out
	grep -qF '{"k":"7"},"7"]' out
	grep -qF '{"k":{"$bin":"Nw=="}},{"$bin":"Nw=="}]' out
	grep -qF '{"k":[1,null]},[1,null]]' out
	run failed 3 no-field
	assert_output --partial "'k'"
	grep -qF '"stage":"lx-in"},{"a":1},' out
}

@test "lx-in --jsonl: what lx-out wrote is read back exactly" {
	local corpus=$ROOT/tests/corpus/good-values.lx
	lx-out -q <"$corpus" | lx-in --run corpus --jsonl >back.lx
	same_stream "$corpus" back.lx
	"$PY" "$ROOT/tests/lxpeer.py" make >in.lx <<-'END'
		[1,0,[0],{"lx":1,"v":{"$bin":"AA=="}},18446744073709551615]
		[1,0,[1],{"$map":[["$bin","AA=="]]},{"$bin":"/w=="}]
		[1,0,[2],{"lx":{"id":[0],"key":"no"}},null]
		[1,0,[3],{"$map":[[{"$str":"/w=="},1],["v",2]]},[1.5,{"$str":"/w=="}]]
		[1,0,[4],{},{"a":{}}]
		[1,0,[5],{"fields":{"a":1},"key":2},"k"]
	END
	lx-out -q <in.lx >out.jsonl
	lx-in --run peer --jsonl out.jsonl >back.lx
	same_stream in.lx back.lx
}

@test "lx-in --jsonl: reads failures of lx-out as items to be done again" {
	printf '%s\n' '{"lx":{"id":[7],"key":"b.pdf","outcome":"failed","cause":{"type":"x","message":"y"}},"path":"b.pdf"}' \
		'{"lx":{"id":[8],"key":"c.pdf","outcome":"failed","cause":{}}}' >in
	records lx-in --jsonl <in
	is '[1,0,[0],{"path":"b.pdf"},"b.pdf"]
[1,0,[1],{},"c.pdf"]'
}

@test "lx-in --jsonl: a field lx of the user's stays a field, and --plain leaves everything as it is" {
	printf '%s\n' '{"lx":1}' '{"lx":{"id":[1],"mine":2}}' '{"lx":{"key":"x"}}' '{"lx":{"id":3}}' >in
	records lx-in --jsonl --key lx <in
	[[ $(grep -c '^\[1,' out) == 4 ]]
	printf '%s\n' '{"lx":{"id":[1],"key":"k"},"b":{"$bin":"no base64"}}' >in
	records lx-in --jsonl --plain <in
	grep -qF '{"lx":{"id":[1],"key":"k"},"b":{"$map":[["$bin","no base64"]]}}' out
	records lx-in --jsonl <in
	run failed 0 bad-json
	assert_output --partial base64
}

# ---- the run ----

@test "lx-in: declares domain, run, fields and limits in its begin mark" {
	lx-in -d page --run my-run --max-record 1M </dev/null >a.lx
	begin_mark a.lx | jq -e '.begin | .run == "my-run" and .packing == "zstd" and .limits.record == 1048576 and
		(.domains == [{"name":"page","parent":null,"state":"open"}]) and
		.ops[0].tool == "lx-in" and .ops[0].writes == ["path"]'
	lx-in --read </dev/null >a.lx
	begin_mark a.lx | jq -e '.begin | .domains[0].name == "doc" and .ops[0].writes == ["path", "data"]'
	lx-in --lines </dev/null >a.lx
	begin_mark a.lx | jq -e '.begin.ops[0].writes == ["data"]'
	lx-in --jsonl </dev/null >a.lx
	begin_mark a.lx | jq -e '.begin.ops[0].writes == ["*"]'
}

@test "lx-in: packs raw on a pipe, with checksums in a file, and as told" {
	lx-in a | cat >a.lx
	begin_mark a.lx | jq -e '.begin.packing == "raw"'
	lx-in a >a.lx
	begin_mark a.lx | jq -e '.begin.packing == "zstd"'
	lx-in --compress checked a | cat >a.lx
	begin_mark a.lx | jq -e '.begin.packing == "checked"'
	lx-in --compress zstd:19 a | cat >a.lx
	begin_mark a.lx | jq -e '.begin.packing == "zstd"'
}

@test "lx-in: gives every run an id of its own, of 128 bits" {
	lx-in a >a.lx
	lx-in a >b.lx
	begin_mark a.lx | jq -e '.begin.run | test("^[0-9a-f]{32}$")'
	[[ $(begin_mark a.lx | jq .begin.run) != $(begin_mark b.lx | jq .begin.run) ]]
	same_stream a.lx b.lx
}

@test "lx-in: halves of one run joined equal the whole" {
	seq 1 1000 >all
	lx-in --run r --lines all >whole.lx
	head -400 all | lx-in --run r --lines >a.lx
	tail -n +401 all | lx-in --run r --lines --first 400 >b.lx
	cat a.lx b.lx >joined.lx
	same_stream whole.lx joined.lx
	lx-cat b.lx a.lx >joined.lx
	same_stream whole.lx joined.lx
}

@test "lx-in: an independent reader agrees" {
	printf 'a\n\xff\n' | lx-in --run r >a.lx
	"$PY" "$ROOT/tests/lxpeer.py" dump <a.lx >peer
	canonical a.lx | diff - peer
	seq 1 30000 | lx-in --lines --compress raw >a.lx
	"$PY" "$ROOT/tests/lxpeer.py" dump <a.lx >peer
	canonical a.lx | cmp - peer
}

@test "lx-in: a slow source leaves no item in a buffer" {
	mkfifo in
	bg sh -c 'lx-in <in | lx-cat --json >out'
	exec 8>in
	echo one >&8
	wait_for 20 grep -qF '{"path":"one"}' out
	echo two >&8
	wait_for 20 grep -qF '{"path":"two"}' out
	exec 8>&-
	wait "$PID"
	grep -q '^{"end"' out
}

@test "lx-in: frames are closed at 128 KiB" {
	seq 1 20000 >lines # a file: a frame is also closed before a wait
	lx-in --lines --compress raw lines >a.lx
	"$PY" - <<-'END'
		import lxpeer
		b, at, sizes = open('a.lx', 'rb').read(), 0, []
		while at < len(b):
		    if b[at:at + 4] == b'\x28\xb5\x2f\xfd':
		        end = lxpeer.frame_end(b, at)
		        sizes.append(end - at)
		        at = end
		    else:
		        at = lxpeer.open_mark(b, at)[2]
		assert len(sizes) > 3 and all(131072 <= s < 140000 for s in sizes[:-1]), sizes
	END
}

@test "lx-in: SIGINT ends the reading; what was read goes out, marked as interrupted" {
	mkfifo in
	local got=0
	bg env --default-signal=INT sh -c 'exec lx-in <in >out.lx 2>err'
	exec 8>in
	echo one >&8
	first_is_out() { lx-cat --json out.lx 2>/dev/null | grep -q '"path":"one"'; }
	wait_for 20 first_is_out
	kill -INT "$PID"
	wait "$PID" || got=$?
	exec 8>&-
	[[ $got == 130 ]] || fail "exit $got"
	exits 3 lx-cat --json out.lx
	says lx-in interrupted
	grep -qF '{"abort":{"code":3,"stage":"lx-in","message":"interrupted after 1 items"}}' out
}

# ---- the edges ----

@test "lx-in: a full disk is exit 5" {
	seq 1 100 >in
	stage_full in lx-in
	stage_full in lx-in --lines
	stage_full in lx-in --to /dev/full
}

@test "lx-in: a reader that is gone ends it quietly" {
	seq 1 100000 >in
	stage_gone in lx-in
	stage_gone in lx-in --lines
}

@test "lx-in: a missing file of lines is exit 5, and the reader after it learns why" {
	exits 5 lx-in --lines missing
	says missing 'No such file'
	seq 3 >a
	exits 5 lx-in --jsonl a missing
	says missing
}

@test "lx-in: wrong options are exit 2 and one line" {
	local args
	while read -ra args; do
		exits 2 lx-in "${args[@]}" </dev/null
		says lx-in
		[[ ! -s out ]] || ! lx-cat out >/dev/null 2>&1 || fail "a stream came out: ${args[*]}"
	done <<-'END'
		--lines --jsonl
		--lines --read
		--plain
		--jsonl -0
		--key other
		--lines --key path
		--run é
		-d 1page
		-d pa/ge
		--first -1
		--compress lz4
		--max-record 0
		--nonsense
	END
	exits 2 lx-in --run 'a b' </dev/null
	exits 2 lx-in --run "$(printf 'x%.0s' {1..129})" </dev/null
	exits 2 lx-in -d "$(printf 'x%.0s' {1..65})" </dev/null
	exits 2 lx-in -d '' </dev/null
	exits 0 lx-in --run "$(printf 'x%.0s' {1..128})" -d "$(printf 'x%.0s' {1..64})" </dev/null
}

@test "lx-in: what is refused is told to the next stage" {
	local args
	for args in '-d 1page' --nonsense '--lines --read'; do
		lx-in $args </dev/null >a 2>/dev/null || true
		exits 2 lx-cat a
		says lx-in "${args##* }"
		lx-in $args </dev/null 2>/dev/null | { exits 2 lx-out; }
		[[ ! -s err ]] || fail "said again: $(<err)"
	done
}

@test "lx-in: a terminal gets no records" {
	run script -qec 'lx-in a' /dev/null </dev/null
	[[ $output == *'not written to a terminal'* ]] || fail "$output"
}

@test "lx-in: LX_CHECK writes the marks and reads nothing" {
	mkfifo in
	exec 8<>in
	LX_CHECK=1 lx-in <in >a.lx
	exec 8>&-
	stage_empty /dev/null env LX_CHECK=1 lx-in --read missing
	LX_CHECK=1 lx-in --to never.lx a
	[[ ! -e never.lx ]]
}

@test "lx-in: --stats counts what it made" {
	printf 'a\nb\nmissing\n' >in
	: >a >b
	lx-in --read --stats stats --run r <in >/dev/null
	jq -e '.stage == "lx-in" and .run == "r" and .out.doc.present == 2 and .out.doc.failed == 1' stats
}

@test "lx-in: --to writes a file that appears when it is complete" {
	mkfifo in
	bg sh -c 'exec lx-in --to a.lx <in'
	exec 8>in
	echo one >&8
	[[ ! -e a.lx ]]
	exec 8>&-
	wait "$PID"
	canonical a.lx
	mkdir dir
	exits 5 lx-in --to missing/a.lx x
	says missing/a.lx
}
