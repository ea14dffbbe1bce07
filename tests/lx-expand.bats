load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf 'a b c\nd\n\n' | lx-in --run r --lines -d text >in.lx
	printf '' | lx-in --run r --lines -d text >empty.lx
}

# The children as "id data" lines.
children() { lx-cat --canonical "$@" | jq -r 'select(.[0] == 1 and .[1] == 1) | "\(.[2] | map(tostring) | join(".")) \(.[3].data)"'; }
closes() { lx-cat --canonical "$@" | jq -c 'select(.[0] == 3) | [.[2], .[3], .[4]]'; }
cause() { lx-cat --canonical "$@" | jq -r "select(.[0] == 3 and .[4] == 2) | .[5].$field"; }

@test "lx-expand: cuts a field in process, in order, and closes each parent" {
	lx-expand -d word -s delim:' ' <in.lx >out.lx
	run children out.lx
	assert_output $'0.0 a\n0.1 b\n0.2 c\n1.0 d'
	run closes out.lx
	assert_output $'[[0],3,0]\n[[1],1,0]\n[[2],0,0]'
	# the text was sent on, and is gone from the parent
	run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[0] == 1 and .[1] == 0) | .[3]'"
	assert_output $'{}\n{}\n{}'
}

@test "lx-expand: keeps the field with --keep, carries and drops what is asked" {
	printf '{"t":"x y","who":"me","z":1}\n' | lx-in --jsonl -d text |
		lx-expand -d word -s delim:' ' -i t --keep --carry who --drop z | lx-cat --canonical >out
	run jq -c 'select(.[0] == 1) | .[3]' out
	assert_output $'{"t":"x y","who":"me"}\n{"who":"me","data":"x"}\n{"who":"me","data":"y"}'
}

@test "lx-expand: takes the elements of an array, maps as fields" {
	printf '{"pages":[{"n":1},7,"s",{"n":18446744073709551615}]}\n{"pages":[]}\n{"pages":3}\n{}\n' | lx-in --jsonl -d doc |
		lx-expand -d page -i pages | lx-cat --canonical >out
	run jq -c 'select(.[0] == 1 and .[1] == 1) | .[3]' out
	assert_line --index 0 '{"n":1}'
	assert_line --index 1 '{"data":7}'
	assert_line --index 2 '{"data":"s"}'
	grep -q '"n":18446744073709551615' out
	run jq -c 'select(.[0] == 2) | [.[2], .[4].type]' out
	assert_output $'[[2],"bad-field"]\n[[3],"no-field"]'
}

@test "lx-expand: runs a command per parent and cuts its output" {
	lx-expand -d word -- tr ' ' '\n' <in.lx >out.lx
	run children out.lx
	assert_output $'0.0 a\n0.1 b\n0.2 c\n1.0 d'
	lx-expand -j 3 -d word -- tr ' ' '\n' <in.lx >out2.lx
	same_stream out.lx out2.lx
}

@test "lx-expand: children leave while the command still runs" {
	mkfifo go
	printf 'x\n' | lx-in --lines -d text |
		lx-expand -d word -- sh -c 'echo first; read -r _ <go; echo second' >out.lx 3>&- &
	BG+=($!)
	child_is_there() { lx-cat --json out.lx 2>/dev/null | grep -q first; }
	wait_for 20 child_is_there
	echo >go
	wait $!
	run children out.lx
	assert_output $'0.0 first\n0.1 second'
}

@test "lx-expand: a command that fails closes its own expansion as failed" {
	lx-expand -d word -- sh -c 'read -r l; for w in $l; do echo "$w"; done; if [ "$l" = d ]; then echo "no good" >&2; exit 3; fi' <in.lx >out.lx 2>/dev/null
	run closes out.lx
	assert_output $'[[0],3,0]\n[[1],1,2]\n[[2],0,0]'
	field=type run cause out.lx
	assert_output exit
	field=message run cause out.lx
	assert_output 'exit status 3: no good'
}

@test "lx-expand: lx-fail in the command gives type, message and scope" {
	lx-expand -d word -- sh -c 'echo x; lx-fail -t bad-text "not a text"' <in.lx >out.lx
	field=type run cause out.lx
	assert_output $'bad-text\nbad-text\nbad-text'
	field=message run cause out.lx
	assert_line 'not a text'
}

@test "lx-expand: runs it again after exit 75 and signals, not once a child has left" {
	printf 'x\n' | lx-in --lines -d text >one.lx
	lx-expand -d w --retry 3 -- sh -c 'echo >>tries; [ $(wc -l <tries) -ge 3 ] || exit 75; echo done' <one.lx >out.lx
	run children out.lx
	assert_output '0.0 done'
	[[ $(wc -l <tries) == 3 ]]
	rm tries
	lx-expand -d w --retry 3 -- sh -c 'echo >>tries; kill -9 $$' <one.lx >out.lx
	[[ $(wc -l <tries) == 4 ]]
	field=type run cause out.lx
	assert_output crash
	rm tries
	lx-expand -d w --retry 3 -- sh -c 'echo >>tries; echo child; kill -9 $$' <one.lx >out.lx
	[[ $(wc -l <tries) == 1 ]]
	run closes out.lx
	assert_output '[[0],1,2]'
}

@test "lx-expand: a time limit kills the command and what it started" {
	printf 'x\n' | lx-in --lines -d text |
		lx-expand -d w --retry 0 --timeout 200ms -- sh -c 'sleep 600 & echo $! >pid; sleep 600' >out.lx
	field=type run cause out.lx
	assert_output timeout
	wait_for 10 gone "$(cat pid)"
}

@test "lx-expand: takes what a command leaves in {dir}, in natural order, and removes it" {
	printf 'x\n' | lx-in --lines -d text |
		lx-expand -d page -s files -- sh -c 'echo "$1" >where; for i in 10 9 1; do echo $i >"$1/p-$i"; done' sh {dir} >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[1] == 1 and .[0] == 1) | [.[2], .[3].name]'"
	assert_output $'[[0,0],"p-1"]\n[[0,1],"p-9"]\n[[0,2],"p-10"]'
	[[ ! -e $(cat where) ]]
	printf 'x\n' | lx-in --lines -d text | lx-expand -d page -s files -- sh -c 'cd "$LX_DIR" && echo one >p' >out.lx
	run children out.lx
	assert_output '0.0 {"$bin":"b25lCg=="}'
}

@test "lx-expand: netpbm images become children byte for byte" {
	for i in 1 2 3; do printf 'P5\n4 3\n255\n%012d' $i; done >images
	printf 'images\n' | lx-in -d doc | lx-expand -d page -s netpbm -- cat {path} >out.lx
	[[ $(lx-cat --canonical out.lx | jq -c 'select(.[1] == 1)' | wc -l) == 4 ]]
	lx-cat --canonical out.lx | jq -r 'select(.[0] == 1 and .[1] == 1) | .[3].data["$bin"]' | while read -r b; do base64 -d <<<"$b"; done | cmp - images
	head -c 20 images >cut
	printf 'cut\n' | lx-in -d doc | lx-expand -d page -s netpbm -- cat {path} >out.lx
	field=type run cause out.lx
	assert_output bad-netpbm
}

@test "lx-expand: children larger than any pipe or buffer come through whole" {
	for i in 1 2; do printf 'P5\n3000 2000\n255\n'; head -c 6000000 /dev/zero | tr '\0' "$i"; done >pages
	printf 'pages\n' | lx-in -d doc | timeout 60 lx-expand -d page -s netpbm -- cat {path} | lx-gather -s concat -o all |
		lx-map -i all -o sum -- cksum | lx-out -q >out
	[[ $(jq -r .sum out) == "$(cksum <pages)" ]]
}

@test "lx-expand: a child over the limit is oversize, others are untouched" {
	head -c 300000 /dev/zero | tr '\0' x >big
	printf 'small\n' >small
	printf 'big\nsmall\n' | lx-in -d doc --max-record 100000 | lx-expand -d line --max-record 100000 -- cat {path} >out.lx
	run closes out.lx
	assert_output $'[[0],0,2]\n[[1],1,0]'
	field=type run cause out.lx
	assert_output oversize
}

@test "lx-expand: a barred parent is not expanded" {
	printf 'a\nb\n' | lx-in --lines -d text | lx-filter 'data==b' |
		lx-expand -d w -- sh -c 'echo >>ran; cat' >out.lx
	[[ $(wc -l <ran) == 1 ]]
	run closes out.lx
	assert_output '[[1],1,0]'
}

@test "lx-expand: names with spaces, newlines, dashes and bytes that are no UTF-8 stay whole" {
	printf 'one' >'a b' && printf 'two' >$'n\nl' && printf 'three' >-x && printf 'four' >$'\xff'
	printf 'a b\0n\nl\0-x\0\xff\0' | lx-in -0 -d doc | lx-expand -d t -- cat {path} >out.lx
	run children out.lx
	assert_output $'0.0 one\n1.0 two\n2.0 three\n3.0 four'
}

@test "lx-expand: a tolerance is declared for every later stage" {
	lx-expand -d word --tolerate 2.5% -s lines <in.lx | lx-cat --json | head -1 >mark
	run jq -c '.begin.domains[1].tolerance' mark
	assert_output '{"percent":250}'
}

@test "lx-expand: nested domains" {
	printf 'a b|c\nd\n' | lx-in --lines -d text | lx-expand -d part -s delim:'|' | lx-expand -d word -s delim:' ' |
		lx-cat --canonical >out
	run jq -c 'select(.[0] == 1 and .[1] == 2) | [.[2], .[3].data]' out
	assert_output $'[[0,0,0],"a"]\n[[0,0,1],"b"]\n[[0,1,0],"c"]\n[[1,0,0],"d"]'
	# two domains of one parent
	printf 'a b\n' | lx-in --lines -d text | lx-expand -d w -s delim:' ' --keep | lx-expand --of text -d c -s delim:a | lx-cat --canonical >out
	run jq -c 'select(.[0] == 1 and .[1] == 2) | [.[2], .[3].data]' out
	assert_output $'[[0,0],""]\n[[0,1]," b"]'
}

@test "lx-expand: shape errors are found before a command starts" {
	exits 2 lx-expand -d text -- touch ran <in.lx
	says lx-expand 'opened before' -d
	exits 2 lx-expand -d w --of page -- touch ran <in.lx
	says "no domain 'page'" text '(--of)'
	exits 2 lx-expand -d w -i nothing -s lines <in.lx
	says "field 'nothing'" data -i
	exits 2 lx-expand -d w -- touch ran {nothing} <in.lx
	says nothing '{{nothing}}'
	exits 2 lx-expand -d w -- no-such-command <in.lx
	says no-such-command
	exits 2 lx-expand -d w -s pgn <in.lx
	says netpbm
	exits 2 lx-expand -s lines <in.lx
	says '-d'
	exits 2 lx-expand -d w -s lines --tolerate 101% <in.lx
	says --tolerate
	lx-expand -d line -s lines <in.lx | lx-gather >g.lx
	exits 2 lx-expand -d w --of line -- touch ran <g.lx
	says gathered
	[[ ! -e ran ]]
}

@test "lx-expand: LX_CHECK stops after the marks" {
	LX_CHECK=1 lx-expand -d w -- touch ran <in.lx >out.lx
	[[ ! -e ran && $(lx-cat --canonical out.lx | wc -l) == 0 ]]
}

@test "lx-expand: when its reader has gone no command and no directory is left" {
	mkdir tmp
	mkfifo pipe
	printf 'a\nb\n' | lx-in --run r --lines -d doc >docs.lx
	bg sh -c 'exec lx-expand -d part -j 2 -s files --tmpdir tmp -- sh -c "touch \$LX_DIR/a started.\$LX_ID
		until [ -e go ]; do sleep 0.02; done; [ \$LX_ID = 0 ] || exec sleep 600" <docs.lx >pipe'
	exec 7<pipe
	wait_for 20 test -e started.0
	wait_for 20 test -e started.1
	exec 7<&-
	touch go
	wait_for 20 gone "$PID"
	got=0
	wait "$PID" || got=$?
	[[ $got == 141 ]] || fail "exit $got"
	[[ -z $(ls -A tmp) ]] || fail "left behind: $(ls -A tmp)"
}

@test "lx-expand: the standard checks of every stage" {
	stage_empty empty.lx lx-expand -d word -s delim:' '
	stage_empty empty.lx lx-expand -d word -- cat
	stage_cut in.lx lx-expand -d word -s delim:' '
	stage_full in.lx lx-expand -d word -s delim:' '
	stage_gone in.lx lx-expand -d word -s delim:' '
	stage_full in.lx lx-expand -d word -- cat
	stage_gone in.lx lx-expand -d word -- cat
}

@test "lx-expand: input cut after whole parents: what ran is finished, nothing else gets a verdict" {
	lx-cat --compress raw in.lx >whole.lx
	head -c -10 whole.lx >cut.lx
	exits 3 lx-expand -d word -- tr ' ' '\n' <cut.lx
	says truncated
	got=0
	lx-cat --json out >json 2>/dev/null || got=$?
	[[ $got == 3 ]]
	[[ $(jq -c 'select(.[0]? == 3)' json | wc -l) == 3 ]]
}
