# What whole pipelines promise: the last command tells the truth, the reason is said once, a failure stays in its scope.
load lib

words() { # DOCS WORDS: documents of that many words each
	local i k
	for ((i = 0; i < $1; i++)); do
		for ((k = 0; k < $2; k++)); do printf 'd%dw%d ' "$i" "$k"; done
		echo
	done | sed 's/ $//'
}
docs() { lx-in --run r --lines -d doc | lx-expand -d word -s delim:' '; }

@test "pipeline: results are equal for any number of jobs and any framing" {
	words 20 7 | docs >in.lx
	lx-map -d word -- rev <in.lx | lx-gather >one.lx
	lx-batch -n 3 <in.lx | lx-map -d word -j 4 -- rev | lx-batch -n 5 | lx-gather >many.lx
	same_stream one.lx many.lx
	lx-out -q <one.lx >out.json
	[[ $(jq -r '[.word[].data] | join(" ")' out.json | head -1) == '0w0d 1w0d 2w0d 3w0d 4w0d 5w0d 6w0d' ]]
	[[ $(wc -l <out.json) == 20 ]]
}

@test "pipeline: a failed child fails its own parent, and no other" {
	words 5 4 | docs | lx-map -d word -j 2 -- sh -c 'read -r w; [ "$w" != d2w1 ] || exec lx-fail -t bad-word "no $w"; echo "$w"' |
		lx-gather | lx-out -q --max-failed 1 --failures bad.json >good.json
	[[ $(wc -l <good.json) == 4 && $(wc -l <bad.json) == 1 ]]
	run jq -c '[.lx.id, .lx.outcome, .lx.cause.type, .lx.cause.message]' bad.json
	assert_output '[[2],"suppressed","bad-word","no d2w1"]'
}

@test "pipeline: a middle stage that is killed ends it in exit 3 at the last command, wherever it stands" {
	local k
	words 50 4 >in
	for k in 1 2 3 4; do
		killer() { if [[ $1 == "$k" ]]; then lx-map -d "$2" -- sh -c 'kill -9 $PPID'; else lx-filter -d "$2" 'data!=nothing'; fi; }
		got=0
		bash -c "set +o pipefail; $(declare -f killer); k=$k
			<in lx-in --lines -d doc | killer 1 doc | lx-expand -d word -s delim:' ' --keep | killer 2 word | lx-batch -n 3 |
			killer 3 word | lx-gather | killer 4 doc | lx-out -q >out" 2>err 3>&- || got=$?
		[[ $got == 3 ]] || fail "exit $got, not 3, with stage $k killed: $(<err)"
		[[ $(grep -c truncated err) == 1 ]] || fail "the reason is not said once: $(<err)"
	done
}

@test "pipeline: a stage that refuses says why once, and its status is the last command's" {
	words 3 3 >in
	got=0
	bash -c "<in lx-in --lines -d doc | lx-expand -d word -s delim:' ' | lx-gather -d page | lx-filter 'data==x' | lx-out" >out 2>err 3>&- || got=$?
	[[ $got == 2 ]] || fail "exit $got: $(<err)"
	says lx-gather page
	[[ ! -s out ]]
	got=0
	bash -c "<in lx-in --lines -d doc | lx-expand -d word --no-such-option | lx-gather | lx-out" >out 2>err 3>&- || got=$?
	[[ $got == 2 ]] || fail "exit $got: $(<err)"
	says lx-expand no-such-option
}

@test "pipeline: an interrupted source ends cleanly, and nothing unfinished gets a verdict" {
	mkfifo feed
	env --default-signal=INT lx-in --run r --lines -d doc <feed >in.lx 3>&- &
	local pid=$!
	BG+=("$pid")
	exec 7>feed
	echo 'one two' >&7
	there() { lx-cat --json in.lx 2>/dev/null | grep -q 'one two'; }
	wait_for 20 there
	kill -INT "$pid"
	got=0
	wait "$pid" || got=$?
	exec 7>&-
	[[ $got == 130 ]]
	got=0
	lx-expand -d word -s delim:' ' <in.lx 2>err | lx-gather | lx-out -q >out || got=$?
	[[ $got == 3 ]]
	[[ $(jq -c '[.word[].data]' out) == '["one","two"]' ]]
}

@test "pipeline: the counts of every stage add up" {
	words 10 6 | docs | lx-filter -d word --stats f 'data!=d3w3' |
		lx-map -d word --stats m -- sh -c 'read -r w; [ "$w" != d4w0 ] || exit 1; echo "$w"' 2>/dev/null |
		lx-gather --stats g | lx-out -q --max-failed 1 --stats o >out
	run jq -c '[.in.word.present, .out.word.present, .out.word.dropped]' f
	assert_output '[60,59,1]'
	run jq -c '.out.word | [.present + .failed + .suppressed + .dropped, .failed, .dropped]' m
	assert_output '[60,1,1]'
	run jq -c '[.in.doc.present, .out.doc.present, .out.doc.suppressed]' g
	assert_output '[10,9,1]'
	[[ $(wc -l <out) == 9 ]]
}

@test "pipeline: a slow source leaves no record stuck in a buffer" {
	mkfifo feed
	bg bash -c "lx-in --lines -d doc <feed | lx-expand -d word -s delim:' ' | lx-filter -d word 'data!=x' | lx-map -d word -- cat |
		lx-batch -n 64 | lx-gather | lx-out -q >out"
	exec 7>feed
	echo 'one two' >&7
	done_one() { [[ $(wc -l <out) == 1 ]]; }
	wait_for 20 done_one
	echo 'three' >&7
	done_two() { [[ $(wc -l <out) == 2 ]]; }
	wait_for 20 done_two
	exec 7>&-
	wait_for 20 gone "$PID"
}

@test "pipeline: LX_CHECK finds a wrong shape and runs nothing" {
	words 2 2 >in
	LX_CHECK=1 bash -c "<in lx-in --lines -d doc | lx-expand -d word -- touch ran | lx-map -- touch ran | lx-gather | lx-out"
	[[ ! -e ran ]]
	got=0
	LX_CHECK=1 bash -c "<in lx-in --lines -d doc | lx-expand -d word -- touch ran | lx-map -i nothing -- touch ran | lx-gather | lx-out" 2>err || got=$?
	[[ $got == 2 && ! -e ran ]]
	says nothing
}

@test "pipeline: nested domains and two domains of one parent come back together" {
	printf 'a b|c d\ne f|g\n' | lx-in --run r --lines -d doc | lx-expand -d page -s delim:'|' | lx-expand -d word -s delim:' ' |
		lx-map -d word -- tr a-z A-Z | lx-gather -d word | lx-gather -d page | lx-out -q >out
	run jq -c '[.page[].word[].data]' out
	assert_output $'["A","B","C","D"]\n["E","F","G"]'
	printf 'a b\nc d\n' | lx-in --run r --lines -d clip | lx-expand -d frame -s delim:' ' --keep | lx-expand --of clip -d sound -s delim:' ' |
		lx-gather -d sound -s concat | lx-gather -d frame -s lines | lx-out -q >out
	run jq -c '[.frame, .sound]' out
	assert_output $'["a\\nb\\n","ab"]\n["c\\nd\\n","cd"]'
}

@test "pipeline: nothing waits in a stage whose input is still open" {
	local stage
	mkfifo feed
	for stage in "lx-filter 'data!=q'" 'lx-filter -- true' 'lx-filter -j 3 -- true' 'lx-map -o v -- cat' 'lx-map -j 3 -- cat' 'lx-batch -n 1' \
		'lx-batch -n 64' 'lx-batch -n 1 --linger 1h' 'lx-batch -n 1 -- lx-filter -- true' 'lx-batch -n 2 -j 2 -- lx-map -- cat' \
		"lx-batch -n 1 -- lx-filter 'data!=q'" 'lx-cat' 'lx-cat --compress zstd' 'lx-fail --id 77' 'lx-filter -d word --not data==x' \
		"lx-expand -d char -s delim:-" "lx-expand -d char -- echo {data}"; do
		: >out.lx
		bg bash -c "lx-in --run r --lines -d doc <feed | lx-expand -d word -s delim:' ' | $stage >out.lx"
		exec 8>feed
		printf 'x a b\ny c d\n' >&8
		came() { lx-cat --json out.lx 2>/dev/null | grep -q '^\[1,1,\[1,2\],'; }
		wait_for 30 came
		exec 8>&-
		wait_for 30 gone "$PID"
		lx-cat out.lx >/dev/null || fail "$stage: not whole"
	done
}
