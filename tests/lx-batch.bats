load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	W=$B/tool/worker
	printf '' | lx-in --run r --lines -d text >empty.lx
	tree 5 >in.lx
}

# docs COUNT [ROW...]: a stream of docs with pages p0, p1, ... from JSON arrays of page texts; rows after COUNT plain
# docs of 1 to 6 pages.
docs() {
	local i j n=$1 row
	shift
	{
		for ((i = 0; i < n; i++)); do
			row='"p"'
			for ((j = 0; j < i * 7 % 6; j++)); do row+=',"p"'; done
			echo "{\"data\":[$row]}"
		done
		for row; do echo "{\"data\":$row}"; done
	} | lx-in --run d --jsonl -d doc | lx-expand -d page -i data
}
# frames FILE DOMAIN-INDEX: the number of present items of the domain in each frame.
frames() {
	"$PY" - "$1" "$2" <<'END'
import sys, io, msgpack, zstandard
b, d, out = open(sys.argv[1], 'rb').read(), int(sys.argv[2]), []
while b:
    if b[1:4] == b'\x2a\x4d\x18':
        b = b[8 + int.from_bytes(b[4:8], 'little'):]
        continue
    z = zstandard.ZstdDecompressor().decompressobj()
    content = z.decompress(b)
    b = z.unused_data
    out.append(sum(1 for r in msgpack.Unpacker(io.BytesIO(content)) if r[0] == 1 and r[1] == d))
print(*out)
END
}
# verdicts FILE: every non-present item as "domain id outcome type".
verdicts() { lx-cat --canonical "$1" | jq -r 'select(.[0] == 2) | "\(.[1]) \(.[2] | map(tostring) | join(".")) \(.[3]) \(.[4].type)"'; }

@test "lx-batch: alone, makes frames of whole batches across parents" {
	lx-batch -n 4 <in.lx >out.lx
	same_stream in.lx out.lx
	run frames out.lx 1
	assert_output '4 4 4 3'
	lx-batch -n 100 <in.lx >out.lx
	run frames out.lx 1
	assert_output 15
	lx-batch -d doc -n 2 <in.lx >out.lx
	same_stream in.lx out.lx
	run frames out.lx 0
	assert_output '2 2 1'
}

@test "lx-batch: alone, closes on bytes and cost, an item over it alone" {
	docs 0 '["aaaa","b","cc","dddddddddddd","e","ff"]' >d.lx
	lx-batch --cost data=5 <d.lx >out.lx
	same_stream d.lx out.lx
	run frames out.lx 1
	assert_output '2 1 1 2' # aaaa+b, cc, the large one, e+ff
	lx-batch -b 40 <d.lx >out.lx
	same_stream d.lx out.lx
	exits 2 lx-batch --cost nothing=5 <in.lx
	says "field 'nothing'" --cost
}

@test "lx-batch: alone, puts items of similar size together" {
	docs 0 '["a","bbbbbbbb","c","dddddddd","e","ffffffff","g"]' '["hhhhhhhh"]' >d.lx
	lx-batch -n 2 --bucket data <d.lx >out.lx
	same_stream d.lx out.lx
	run frames out.lx 1
	assert_output --regexp '^(0 )?2 (0 )?2 (0 )?2 (0 )?2( 0)?$'
	lx-batch -n 3 --bucket data --stats s.json <d.lx >out.lx
	same_stream d.lx out.lx
	run jq .batches s.json
	assert_output 4
}

@test "lx-batch: alone, a part-filled frame leaves when the source is slow, later with --linger" {
	mkfifo slow
	lx-batch -n 100 <slow >out.lx 3>&- &
	BG+=($!)
	local pid=$!
	exec 8>slow
	tree 1 | lx-cat --compress raw >one.lx
	head -c -30 one.lx >&8 # all but the end mark
	line_is_there() { lx-cat --json out.lx 2>/dev/null | grep -q d0-c; }
	wait_for 20 line_is_there
	tail -c 30 one.lx >&8
	exec 8>&-
	wait "$pid"
	same_stream one.lx out.lx
}

@test "lx-batch: workers answer every item, whatever the batch size and their number" {
	docs 12 >d.lx
	local n j
	for n in 1 2 7 64; do
		for j in 1 4; do
			lx-batch -n $n -j $j -- "$W" <d.lx >out.lx
			same_stream d.lx out.lx
			lx-batch -n $n -j $j --order fifo -- "$W" -r <d.lx >out.lx
			same_stream d.lx out.lx
			lx-batch -n $n -j $j --fixed -W "$W -r" <d.lx >out.lx
			same_stream d.lx out.lx
			lx-batch -b 50 -j $j --bucket data --linger 0 -W "$W" -W "$W -n 4" -- "$W" <d.lx >out.lx
			same_stream d.lx out.lx
		done
	done
}

@test "lx-batch: a worker gets whole batches, and its number and device" {
	docs 0 '["a","b","c","d","e","f","g"]' >d.lx
	lx-batch --fixed -n 3 -j 1 -W "tee sent.lx | $W" <d.lx >out.lx
	run frames sent.lx 1
	assert_output '3 3 1'
	# Neither serves before both have started: one alone could answer all.
	lx-batch --gpus 4,7 -n 1 --start-timeout 60 <d.lx >out.lx \
		-W "echo \$LX_WORKER \$CUDA_VISIBLE_DEVICES >w\$LX_WORKER; until [ -s w0 -a -s w1 ]; do sleep 0.01; done; exec $W"
	[[ $(cat w0 w1) == $'0 4\n1 7' ]]
}

@test "lx-batch: --stats counts the time of the workers" {
	printf 'a\n' | lx-in --run r --lines >one.lx
	cat one.lx >two.lx
	lx-in --run s --lines <<<b >>two.lx
	lx-batch --stats s.json -- lx-map -o data -- sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' <one.lx >out.lx
	run jq '.child_cpu_ms >= 10' s.json
	assert_output true
	lx-batch --stats s.json -- lx-map -o data -- cat <two.lx >out.lx
	run jq -c '[.run, .child_cpu_ms >= 0]' s.json
	assert_output $'["r",true]\n["s",true]'
	exits 5 lx-batch --stats /dev/full -- lx-map -o data -- cat <one.lx
	says --stats
}

@test "lx-batch: what the worker declares is in our begin mark" {
	lx-batch -- "$W" <in.lx | lx-cat --json | head -1 >begin
	run jq -r '.begin.ops[-2:][].tool' begin
	assert_output $'worker\nlx-batch'
}

@test "lx-batch: the same seven children fail for every batch size, and only their parents, however they fail" {
	local how n j m type
	for how in fail-parent exit die; do
		m="\"$how\""
		docs 10 "[\"p\",$m,\"p\"]" '["p","p","p","p"]' "[$m]" '["p","p"]' "[\"p\",\"p\",\"p\",$m,\"p\"]" "[$m,\"p\",\"p\"]" '["p"]' \
			"[\"p\",\"p\",$m]" "[\"p\",\"p\",\"p\",\"p\",\"p\",\"p\",\"p\",$m,\"p\",\"p\"]" '["p","p","p"]' "[$m,\"p\"]" >d.lx
		[[ $how == fail-parent ]] && type=test || type=crash
		for n in '-n 1' '-n 2' '-n 7' '-n 64' '--cost data=9'; do
			for j in 1 4; do
				# shellcheck disable=SC2086
				lx-batch -q $n -j $j --stats s.json -- "$W" <d.lx >out.lx
				lx-cat --canonical out.lx >out
				run jq -r 'select(.[0] == 2 and .[3] == 2) | (.[2] | map(tostring) | join(".")) + " " + .[4].type' out
				assert_output "10.1 $type"$'\n'"12.0 $type"$'\n'"14.3 $type"$'\n'"15.0 $type"$'\n'"17.2 $type"$'\n'"18.7 $type"$'\n'"20.0 $type"
				# everybody outside the seven parents is as he was
				diff <(lx-cat --canonical d.lx | jq -c 'select(.[0] == 1 and (.[2][0] | IN(10, 12, 14, 15, 17, 18, 20) | not))') \
					<(jq -c 'select(.[0] == 1 and (.[2][0] | IN(10, 12, 14, 15, 17, 18, 20) | not))' out)
				run jq -c '(.doomed | [.received == .failed + .dropped + .never_sent + .discarded + .left, .parents >= 5, .failed]) +
					[.in.page.present == ([.out.page[]] | add) - .out.page.closes]' s.json
				assert_output '[true,true,7,true]'
				# a batch is halved until its culprit is alone, and that one dies twice
				run jq '.losses <= 7 * (6 + 2) and .resent <= .losses * 64' s.json
				assert_output true
			done
		done
	done
}

@test "lx-batch: a failure with a wide scope bars the whole document, a drop nobody" {
	docs 3 '["fail-doc","p","p"]' '["drop","p"]' >d.lx
	lx-batch -n 2 -- "$W" <d.lx >out.lx
	run verdicts out.lx
	assert_line '1 3.0 2 test'
	assert_line '1 4.0 1 test'
	refute_line --regexp '^1 4.1'
	[[ $(verdicts out.lx | wc -l) -ge 2 ]]
}

@test "lx-batch: doomed siblings are not sent" {
	local many='"p"' i
	for ((i = 0; i < 300; i++)); do many+=',"p"'; done
	docs 200 "[\"fail-parent\",$many]" "[\"fail-parent\",$many]" >d.lx
	lx-batch -n 1 --linger 10s --stats s.json -- "$W" <d.lx >out.lx
	run jq -c '[.doomed.parents, .doomed.failed, .doomed.never_sent, .doomed.discarded, .barred]' s.json
	assert_output '[2,2,602,0,602]'
	run bash -c "verdicts() { lx-cat --canonical out.lx | jq -r 'select(.[0] == 2) | .[3:5] | [.[0], .[1].origin[1]] | tostring'; }; verdicts | sort | uniq -c | tr -s ' '"
	assert_output $' 1 [2,[200,0]]\n 1 [2,[201,0]]\n 301 [3,[200,0]]\n 301 [3,[201,0]]'
}

@test "lx-batch: answers that came before a worker died count, at every byte" {
	docs 0 '["a","b","c"]' '["d","e"]' >d.lx
	local i size
	lx-batch -n 2 -W "$W -r | tee answers.lx" <d.lx >out.lx
	size=$(stat -c %s answers.lx)
	((size > 200))
	for ((i = 1; i <= size; i++)); do
		rm -f once
		lx-batch -q -n 2 -W "if [ -e once ]; then exec $W -r; else >once; exec $W -r -c $i; fi" <d.lx >out.lx
		same_stream d.lx out.lx
	done
}

@test "lx-batch: a flaky worker costs nobody anything" {
	docs 5 '["p","die","p"]' '["exit","p"]' >d.lx
	lx-batch -q -n 3 -j 2 --stats s.json -- "$W" -1 once <d.lx >out.lx
	same_stream d.lx out.lx
	run jq '.losses >= 1 and .crashed == 0' s.json
	assert_output true
}

@test "lx-batch: a worker over its time is killed with all it started" {
	local how
	for how in hang stop silent; do
		docs 2 "[\"p\",\"$how\",\"p\"]" >d.lx
		lx-batch -n 4 -j 2 --timeout 0.2 -- "$W" <d.lx >out.lx 2>err
		run verdicts out.lx
		assert_line '1 2.1 2 timeout'
		grep -q 'over its time' err
	done
	no_worker_is_left() { ! pgrep -f "^$W" >/dev/null; }
	wait_for 20 no_worker_is_left
}

@test "lx-batch: a worker that beats and falls silent is lost, and charges nobody" {
	docs 1 '["p","silent","p"]' >d.lx
	lx-batch -n 4 -j 2 --stats s.json -- "$W" -b 100 -1 once <d.lx >out.lx 2>err
	same_stream d.lx out.lx
	grep -q 'fell silent' err
}

@test "lx-batch: a worker that breaks the contract is named, and that is the end" {
	local how
	for how in twice:twice stranger:'not open' other:'another kind'; do
		docs 2 "[\"p\",\"${how%%:*}\",\"p\"]" >d.lx
		exits 6 lx-batch -n 4 -- "$W" <d.lx
		says 'worker 0' "${how#*:}" page
		mv out out.lx
		exits 6 lx-cat out.lx # it says so itself
	done
	exits 6 lx-batch -n 4 -j 2 -- lx-map -- lx-fail --scope nope x <d.lx
	grep -q "scope 'nope' is neither record, parent, nor an ancestor domain of page" err || fail "$(<err)"
	refute grep -q 'items unanswered' err
	exits 6 lx-batch -- lx-expand -d part -s delim:' ' <in.lx
	grep -q 'changes the domains' err
}

@test "lx-batch: what a worker writes may be no stream at all" {
	docs 2 '["p","garbage","p"]' >d.lx
	lx-batch -n 4 -j 2 -- "$W" <d.lx >out.lx 2>err
	run verdicts out.lx
	assert_line '1 2.1 2 crash'
	exits 6 lx-batch -W 'echo hello' <d.lx
}

@test "lx-batch: a worker that is no lx stage is told from one" {
	local w
	tree 1 >one.lx
	for w in 'echo hello' 'printf h' 'echo hello; exec sleep 1000'; do
		exits 6 lx-batch -W "$w" <one.lx
		grep -q 'worker 0 .* wrote what is no lx stream: is it an lx stage?' err || fail "$w: $(<err)"
	done
	exits 6 lx-batch -- true <one.lx
	grep -q 'worker 0 (true) ended with status 0 before it was ready' err || fail "$(<err)"
	printf 'a b\n' | lx-in --run r --lines -d line | lx-expand -d word -s delim:' ' --keep >kept.lx
	exits 6 lx-batch -- lx-broadcast -i data -o up <kept.lx
	says 'worker 0 (lx-broadcast) is no worker' 'outside lx-batch'
	bg bash -c 'exec lx-batch -j 2 --start-timeout 0 -- wc <one.lx >/dev/null 2>doubt'
	wait_for 30 grep -q 'worker 0 (wc) has written no begin mark .* is it one?' doubt
	kill "$PID"
	wait "$PID" || :
	[[ $(wc -l <doubt) == 1 ]] || fail "$(<doubt)"
}

@test "lx-batch: workers that die on every start end the stage at once" {
	local before=$SECONDS
	exits 6 lx-batch -j 3 -- "$W" -x <in.lx
	grep -q 'no worker is left' err
	# once for what starts alike
	exits 6 lx-batch -j 2 -- false <in.lx
	[[ $(wc -l <err) == 4 && $(grep -c 'ended with status 1 before it was ready$' err) == 2 ]] || fail "$(<err)"
	grep -q 'no worker is left: worker . (false) ended with status 1' err || fail "$(<err)"
	exits 6 lx-batch --start-timeout 0.1 -- sleep 100 <in.lx
	((SECONDS - before < 20))
	mv out out.lx
	exits 6 lx-cat out.lx
}

@test "lx-batch: a worker that never answers ends the stage, not every item" {
	docs 40 >d.lx
	exits 6 lx-batch -q -n 8 -j 2 -- "$W" -e <d.lx
	exits 6 lx-batch -q -n 1 -j 2 -- "$W" -e <d.lx
	grep -q 'in a row' err
}

@test "lx-batch: --on-crash" {
	docs 3 '["p","die","p"]' >d.lx
	lx-batch -q -n 100 --fixed --on-crash fail -- "$W" <d.lx >out.lx
	[[ $(verdicts out.lx | grep -c crash) -ge 4 ]]
	lx-batch -q -n 100 --fixed --on-crash retry --retry 2 --stats s.json -- "$W" -1 once <d.lx >out.lx
	same_stream d.lx out.lx
	exits 6 lx-batch --on-crash abort -- "$W" <d.lx
	says 'unanswered (--on-crash abort): worker 0' 'died of signal 9'
	docs 0 '["hang"]' >d.lx
	exits 6 lx-batch --on-crash abort --timeout 0.1 -- "$W" <d.lx
	says '1 item unanswered (--on-crash abort): worker 0' 'is over its time (--timeout)'
}

@test "lx-batch --timeout: ends what the worker started too, in groups of its own and stopped ones" {
	local hang pid i
	mkdir t
	seq 12 | lx-in --lines --run r -d n >d.lx
	for hang in 'wait' 'kill -STOP $PPID; wait'; do
		: >pids
		printf '%s\n' 'read x' "[ \$x != 7 ] || { sleep 100 & echo \$! \$\$ >>pids; $hang; }" 'echo r$x' >hang.sh
		TMPDIR=$PWD/t lx-batch -q -n 4 -j 2 --timeout 0.3 -- lx-map -o x -- sh hang.sh {dir} <d.lx |
			exits 0 lx-out --max-failed 1 --failures f.json >out
		[[ $(wc -l <out) == 11 ]] && grep -q '"timeout"' f.json || fail "$(cat f.json)"
		[[ $(wc -l <pids) -ge 2 ]] || fail "$hang: $(cat pids)"
		for pid in $(cat pids); do
			for ((i = 0; i < 100; i++)); do
				kill -0 "$pid" 2>/dev/null || continue 2
				sleep 0.05
			done
			fail "$hang: process $pid is left"
		done
		[[ -z $(ls t) ]] || fail "$hang: $(ls t)"
	done
}

@test "lx-batch --timeout: what a worker still tidies up is waited for, be its output closed or its shell gone" {
	docs 1 '["p","silent","p"]' >d.lx
	# the worker is told to end and closes its output first
	cat >closes.sh <<-END
		exec 3<&0
		"$W" -1 once <&3 &
		exec 0<&- 3<&-
		trap 'exec >&-; sleep 0.8; : >closes; exit' TERM
		wait
	END
	# what was started last goes on for a moment while the shell around it is gone
	cat >chain.sh <<-END
		exec 3<&0
		sh -c 'exec 4<&0; trap "sleep 0.3; : >chain; exit" TERM; "$W" -1 once <&4 & wait' <&3 &
		wait
	END
	local how
	for how in closes chain; do
		rm -f once
		lx-batch -n 4 --timeout 0.2 --stats s.json -W "exec sh $how.sh" <d.lx >out.lx 2>err
		same_stream d.lx out.lx
		[[ -e $how ]] || fail "$how: it was killed at once"
		run jq .losses s.json
		assert_output 1
	done
}

@test "lx-batch --max-crashes: counts losses, not the items of one lost batch" {
	local mode
	seq 60 | lx-in --lines --run r -d n >d.lx
	for mode in fail retry; do
		lx-batch -q -n 20 --fixed --on-crash $mode --max-crashes 2 --stats s.json -- \
			lx-map -o x -- sh -c 'read n; [ "$n" != 21 ] || kill -9 $PPID; echo "$n"' <d.lx |
			exits 0 lx-out --max-failed 100% --failures f.json >out
		grep -q 'ended without answering it: it died of signal 9' f.json || fail "$(head -1 f.json)"
		[[ $(wc -l <out) == 40 && $(grep -c '"crash"' f.json) == 20 ]] || fail "$mode: $(wc -l <out) lines"
	done
	exits 6 lx-batch -q -n 20 --fixed --on-crash fail --max-crashes 2 -- lx-map -o x -- sh -c 'kill -9 $PPID' <d.lx
	says '2 losses in a row' --max-crashes
}

@test "lx-batch: a worker that floods stderr, or takes nothing for a while, does not deadlock" {
	docs 2 '["p","flood","p"]' >d.lx
	lx-batch -n 4 -- "$W" <d.lx >out.lx 2>/dev/null
	same_stream d.lx out.lx
	local big
	big=$(head -c 300000 /dev/zero | tr '\0' x)
	for _ in 1 2 3 4 5 6 7 8; do echo "{\"data\":[\"$big\",\"$big\"]}"; done | lx-in --run d --jsonl -d doc | lx-expand -d page -i data >d.lx
	lx-batch -n 4 -j 2 -- "$W" -S 100 -r <d.lx >out.lx
	same_stream d.lx out.lx
}

@test "lx-batch: a worker may be an lx-batch, or a pipeline" {
	docs 10 '["p","fail-parent","p"]' '["p","die","p"]' >d.lx
	lx-batch -q -n 8 -- lx-batch -q -n 2 -j 2 -- "$W" <d.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -r 'select(.[0] == 2 and .[3] == 2) | .[2] | map(tostring) | join(\".\")'"
	assert_output $'10.1\n11.1'
	docs 10 >d.lx
	lx-batch -n 8 -j 2 -W "lx-batch -n 3 | lx-batch -n 2 -- $W | $W -r" <d.lx >out.lx
	same_stream d.lx out.lx
}

@test "lx-batch: nested domains, and the domain of the call in the middle" {
	printf 'a b|c\nd|e f g\n' | lx-in --run r --lines -d text | lx-expand -d part -s delim:'|' --keep | lx-expand -d word -s delim:' ' >d.lx
	lx-batch -n 2 -j 2 -- "$W" <d.lx >out.lx
	same_stream d.lx out.lx
	lx-batch -d part -n 2 -j 2 -- "$W" <d.lx >out.lx
	same_stream d.lx out.lx
	lx-batch -d text -n 2 -j 2 -- "$W" <d.lx >out.lx
	same_stream d.lx out.lx
}

@test "lx-batch: a record leaves as soon as it is answered, while the source is slow" {
	mkfifo slow
	lx-batch -n 100 -- "$W" <slow >out.lx 3>&- &
	BG+=($!)
	local pid=$!
	exec 8>slow
	tree 1 | lx-cat --compress raw >one.lx
	head -c -30 one.lx >&8
	line_is_there() { lx-cat --json out.lx 2>/dev/null | grep -q d0-c; }
	wait_for 20 line_is_there
	tail -c 30 one.lx >&8
	exec 8>&-
	wait "$pid"
	same_stream one.lx out.lx
}

@test "lx-batch: two runs in one input, with the same workers" {
	docs 3 >d.lx
	cat in.lx d.lx >both.lx
	lx-batch -n 2 -j 2 --stats s.json -- "$W" <both.lx >out.lx
	same_stream both.lx out.lx
	run jq -c '[.run, .starts]' s.json
	assert_output $'["test",2]\n["d",2]'
}

@test "lx-batch: a worker that starts when the run is over begins the next with the others" {
	docs 3 >d.lx
	printf '{"data":["a","b","c","d"]}\n' | lx-in --run more --jsonl -d doc | lx-expand -d page -i data >more.lx
	mkfifo feed
	# one answers all of the first run while the other waits; the next run comes before that has begun
	bg bash -c "cat feed | lx-batch -n 2 -W '$W' -W 'until [ -e go ]; do sleep 0.02; done; exec $W -a begun' >out.lx"
	exec 8>feed
	cat in.lx >&8
	cat d.lx >&8
	children() { [[ $(lx-cat --json out.lx 2>/dev/null | grep -c '^\[1,1,') -ge $1 ]]; }
	n=$(lx-cat --json in.lx d.lx | grep -c '^\[1,1,')
	wait_for 30 children "$n"
	: >go
	begun_twice() { [[ $(stat -c %s begun 2>/dev/null) == 2 ]]; }
	wait_for 30 begun_twice
	cat more.lx >&8
	wait_for 30 children $((n + 4))
	exec 8>&-
	wait_for 30 gone "$PID"
	cat in.lx d.lx more.lx >all.lx
	same_stream all.lx out.lx
}

@test "lx-batch: when it is ended its workers remove what they made" {
	mkdir tmp
	bg sh -c 'TMPDIR=tmp exec lx-batch -n 1 -j 2 -- lx-map -o v -- sh -c "touch \$1/a started.\$LX_ID; exec sleep 600" sh {dir} <in.lx >out.lx 2>err'
	two_started() { (($(find . -maxdepth 1 -name 'started.*' | wc -l) == 2)); }
	wait_for 20 two_started
	[[ -n $(ls -A tmp) ]]
	kill -TERM "$PID"
	got=0
	wait "$PID" || got=$?
	[[ $got == 143 && ! -s err ]] || fail "exit $got: $(<err)"
	[[ -z $(ls -A tmp) ]] || fail "left behind: $(ls -A tmp)"
}

@test "lx-batch: when it is killed its workers end and remove what they made" {
	mkdir tmp
	bg sh -c 'TMPDIR=tmp exec lx-batch -n 1 -j 2 -- lx-map -o v -- sh -c "echo \$\$ >pid.\$LX_ID; touch \$1/a; sleep 600 & echo \$! >sleep.\$LX_ID; wait" sh {dir} <in.lx >out.lx'
	two_started() { [[ $(find . -maxdepth 1 -name 'sleep.*' -size +0 | wc -l) == 2 ]]; }
	wait_for 20 two_started
	[[ -n $(ls -A tmp) ]]
	kill -KILL "$PID"
	tidied() { [[ -z $(ls -A tmp) ]]; }
	wait_for 20 tidied
	for p in pid.* sleep.*; do wait_for 20 gone "$(<"$p")"; done
}

@test "lx-batch: when its reader has gone no worker is left, whatever they do" {
	mkfifo pipe
	bg sh -c 'exec lx-batch -n 1 -j 2 -- lx-map -o v -- sh -c "echo \$\$ >pid.\$LX_ID; exec sleep 600" <in.lx >pipe'
	exec 7<pipe
	two_started() { [[ $(find . -maxdepth 1 -name 'pid.*' -size +0 | wc -l) == 2 ]]; }
	wait_for 20 two_started
	exec 7<&-
	wait_for 20 gone "$PID"
	got=0
	wait "$PID" || got=$?
	[[ $got == 141 ]]
	for p in pid.*; do wait_for 10 gone "$(<"$p")"; done
	# also while nothing is to be written, for no worker has begun
	bg sh -c 'exec lx-batch -n 1 --start-timeout 0 -- sh -c "echo \$\$ >silent; exec sleep 600" <in.lx >pipe'
	exec 7<pipe
	has_started() { [[ -s silent ]]; }
	wait_for 20 has_started
	exec 7<&-
	wait_for 20 gone "$PID"
	wait_for 20 gone "$(<silent)"
}

@test "lx-batch: SIGTERM ends it and its workers" {
	docs 4 >d.lx
	setsid lx-batch -n 1 -j 2 -- "$W" -s 30000000 <d.lx >out.lx 2>err 3>&- &
	local pid=$!
	BG+=("$pid")
	two_workers() { [[ $(pgrep -cf "^$W -s 30000000") == 2 ]]; }
	wait_for 20 two_workers
	kill -TERM "$pid"
	got=0
	wait "$pid" || got=$?
	[[ $got == 143 ]]
	no_worker_is_left() { ! pgrep -f "^$W -s 30000000" >/dev/null; }
	wait_for 20 no_worker_is_left
	exits 3 lx-cat out.lx
}

@test "lx-batch: wrong options and shapes are found before a worker starts" {
	local option
	for option in '-j 2' '--queue 9' '--mem 1M' '--silence 1' '--start-timeout 60' '--on-crash bisect' '--retry 1' '--strikes 16' '--max-crashes 16'; do
		# shellcheck disable=SC2086
		exits 2 lx-batch $option <in.lx
		says -W
	done
	exits 2 lx-batch -d page -- touch ran <in.lx
	says "no domain 'page'"
	exits 2 lx-batch -- no-such-command <in.lx
	says no-such-command
	exits 2 lx-batch --cost x -- touch ran <in.lx
	says --cost FIELD=BUDGET
	exits 2 lx-batch --bucket nothing -- touch ran <in.lx
	says "field 'nothing'" --bucket
	exits 2 lx-batch --on-crash pray -- touch ran <in.lx
	says bisect
	exits 2 lx-batch --fixed --order probe -- touch ran <in.lx
	says --fixed
	[[ ! -e ran ]]
}

@test "lx-batch: what fails before it reads is the reason of the stages behind it too" {
	local got=0
	! sanitized || return 0 # its allocator needs more than the limit
	(ulimit -v 200000 && exec lx-batch -n 1 -- "$W" echo <in.lx 2>err) | lx-cat >out 2>err2 || got=$?
	[[ $got == 5 && ! -s err2 ]] || fail "exit $got: $(cat err err2)"
	says 'lx-batch: reserving' '--mem'
}

@test "lx-batch: LX_CHECK checks the worker too" {
	LX_CHECK=1 lx-batch -- lx-batch -n 3 <in.lx >out.lx
	[[ $(lx-cat --canonical out.lx | wc -l) == 0 ]]
	got=0
	LX_CHECK=1 lx-batch -- lx-batch --cost nothing=3 <in.lx >out.lx 2>err || got=$?
	[[ $got == 2 ]]
	grep -q "field 'nothing'" err
}

@test "lx-batch: the standard checks of every stage" {
	stage_empty empty.lx lx-batch
	stage_empty empty.lx lx-batch -j 2 -- "$W"
	stage_cut in.lx lx-batch -n 2
	stage_full in.lx lx-batch
	stage_full in.lx lx-batch -q -- "$W"
	stage_gone in.lx lx-batch
	stage_gone in.lx lx-batch -q -W "$W 2>/dev/null" # it says that its input was cut off
	head -c -10 in.lx >cut.lx
	exits 3 lx-batch -q -- "$W" <cut.lx
	exits 3 lx-cat out
}

@test "lx-batch: a worker that ends its stream while its input goes on is lost, and not waited for" {
	seq 20 | lx-in --lines --run r >in.lx
	lx-in --lines --run r </dev/null | lx-map -o data -- cat >none.lx
	lx-map -o data -- cat <in.lx >want.lx
	timeout 20 lx-batch -q -n 2 -W 'cat none.lx; exec sleep 1000' -W 'lx-map -o data -- cat' <in.lx >out.lx 2>err || fail "$(<err)"
	same_stream want.lx out.lx
	got=0
	timeout 20 lx-batch -n 2 --strikes 3 -W 'cat none.lx; exec sleep 1000' <in.lx >out.lx 2>err || got=$?
	((got == 6)) || fail "$got: $(<err)"
	grep -q 'an end mark while its input goes on' err
}
