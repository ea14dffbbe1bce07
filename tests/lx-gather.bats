load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf 'a b c\nd\n\n' | lx-in --run r --lines -d text | lx-expand -d word -s delim:' ' >in.lx
	printf '' | lx-in --run r --lines -d text | lx-expand -d word -s delim:' ' >empty.lx
}

# ---- streams made by hand: lines for `make`, with documents 0.. and pages below them ----

make() { "$PY" "$ROOT/tests/lxpeer.py" make; }
# Bytes of a stream up to the end of its first frame (a flush line ends one).
first_frame() { "$PY" -c 'import sys; from lxpeer import frame_end, open_mark; b = open(sys.argv[1], "rb").read(); print(frame_end(b, open_mark(b, 0)[2]))' "$1"; }
# begin [TOLERANCE]: the mark; TOLERANCE as in {"n":1}. $record_limit: the writer's
begin() {
	printf '{"begin":{"run":"r","limits":{"record":%s,"frame":1073741824,"depth":32,"id":16,"fields":4096},"domains":[{"name":"doc","parent":null,"state":"open"},{"name":"page","parent":0,"state":"open","tolerance":%s}],' "${record_limit:-268435456}" "${1:-{\"n\":0\}}"
	printf '"ops":[{"tool":"peer","domain":0,"reads":[],"writes":["*"],"drops":[]},{"tool":"peer","domain":1,"reads":[],"writes":["*"],"drops":[]}]}}\n'
}
doc() { printf '[1,0,[%s],{"name":"d%s"},"k%s"]\n' "$1" "$1" "$1"; }
# page DOC N [VALUE]
page() { printf '[1,1,[%s,%s],{"data":"%s"}]\n' "$1" "$2" "${3:-$1-$2}"; }
# gone DOC N OUTCOME [ANCHOR]: a page that is not present, 1 dropped, 2 failed, 3 suppressed
gone() {
	local cause='null'
	[[ $3 == 1 ]] || cause=$(printf '{"type":"bad-page","message":"page %s is bad","anchor":%s,"origin":[1,[%s,%s]]}' "$2" "${4:-[1,[$1,$2]]}" "$1" "$2")
	printf '[2,1,[%s,%s],%s,%s,null]\n' "$1" "$2" "$3" "$cause"
}
# closing DOC COUNT [OUTCOME]
closing() {
	if [[ ${3:-0} == 0 ]]; then
		printf '[3,1,[%s],%s,0,null]\n' "$1" "$2"
	else
		printf '[3,1,[%s],%s,%s,{"type":"exit","message":"no good","anchor":[0,[%s]],"origin":[0,[%s]]}]\n' "$1" "$2" "$3" "$1" "$1"
	fi
}

# What came out: "ID outcome ..." a line, the children's data of a present parent, else type, message and the cause's origin.
verdicts() {
	lx-cat --canonical "$@" | jq -r '
		if .[0] == 1 then "\(.[2][0]) present \(.[3].page | map("\(.ordinal):\(.data)") | join(" "))\(if .[3].missing then " missing \(.[3].missing | tojson)" else "" end)"
		else "\(.[2][0]) \(["", "dropped", "failed", "suppressed"][.[3]])\(if .[4] then " \(.[4].type): \(.[4].message) \(.[4].origin[1] | tojson)" else "" end)" end'
}
stat_is() { [[ $(jq -s "last.$1" stats) == "$2" ]] || fail "$1 is $(jq -s "last.$1" stats), not $2: $(<stats)"; }

# ---- the new field ----

@test "lx-gather: an array of maps in order, named after the domain" {
	lx-gather <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output $'{"word":[{"ordinal":0,"data":"a"},{"ordinal":1,"data":"b"},{"ordinal":2,"data":"c"}]}\n{"word":[{"ordinal":0,"data":"d"}]}\n{"word":[]}'
	run bash -c "lx-cat --json out.lx | head -1 | jq -c '.begin.domains[1].state, .begin.ops[-1].tool, .begin.ops[-1].writes'"
	assert_output $'"gathered"\n"lx-gather"\n["word"]'
}

@test "lx-gather: -o names the field, -f chooses the children's fields, --drop takes from the parent" {
	printf '{"items":[{"a":1,"b":2},{"a":3,"b":4}],"x":9}\n' | lx-in --jsonl -d doc | lx-expand -d item -i items --keep >j.lx
	lx-gather -o all -f b --drop x,items <j.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output '{"all":[{"ordinal":0,"b":2},{"ordinal":1,"b":4}]}'
	lx-gather -o items <j.lx >out.lx # the new field replaces one of that name
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output '{"x":9,"items":[{"ordinal":0,"a":1,"b":2},{"ordinal":1,"a":3,"b":4}]}'
}

@test "lx-gather: a child's own field called ordinal gives way" {
	printf '{"items":[{"ordinal":7,"b":2}]}\n' | lx-in --jsonl -d doc | lx-expand -d item -i items | lx-gather >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output '{"item":[{"ordinal":0,"b":2}]}'
}

@test "lx-gather: concat and lines join a field" {
	lx-gather -s concat <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output $'{"word":"abc"}\n{"word":"d"}\n{"word":""}'
	lx-gather -s lines -o text <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output $'{"text":"a\\nb\\nc\\n"}\n{"text":"d\\n"}\n{"text":""}'
	printf 'x\xff\0y' >raw
	printf 'raw\n' | lx-in --read -d doc | lx-expand -d piece -s nul | lx-gather -s concat >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3].piece"
	assert_output '{"$bin":"eP95"}'
}

@test "lx-gather: a command makes the field of the joined bytes" {
	lx-gather -s lines -- sort -r <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output $'{"word":"c\\nb\\na"}\n{"word":"d"}\n{"word":""}'
	lx-gather -o n -- wc -c <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3].n"
	assert_output $'"3"\n"1"\n"0"'
}

@test "lx-gather: -o FIELD:TYPE says what a command's output is" {
	lx-gather -o n:int -- wc -c <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3].n"
	assert_output $'3\n1\n0'
	lx-gather -s lines -o all:json -- sh -c 'echo "{\"words\": [[$(sed "s/.*/\"&\"/" | paste -sd,)]]}"' <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3].all"
	assert_output $'{"words":[["a","b","c"]]}\n{"words":[["d"]]}\n{"words":[[]]}'
	lx-gather -o n:int -- cat <in.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -r '.[4].type'"
	assert_output $'bad-output\nbad-output\nbad-output'
	exits 2 lx-gather -o n:int <in.lx
	says -o command
	exits 2 lx-gather -o n:number -- cat <in.lx
	says number 'str, bin, int, float, json'
}

@test "lx-gather: a command that fails fails its own parent, which keeps its fields" {
	{
		begin
		for d in 0 1 2; do doc $d; page $d 0; closing $d 1; done
	} | make >h.lx
	lx-gather -- sh -c 'read -r l; [ "$l" != 1-0 ] || { echo "cannot do $l" >&2; exit 4; }; [ "$l" != 2-0 ] || lx-fail -t odd "not $l"; echo "$l"' <h.lx >out.lx 2>/dev/null
	run bash -c "lx-cat --canonical out.lx | jq -c 'if .[0] == 1 then .[3] else [.[3], .[4].type, .[4].message, .[4].origin, .[5]] end'"
	assert_output $'{"name":"d0","page":"0-0"}\n[2,"exit","exit status 4: cannot do 1-0",[0,[1]],{"name":"d1"}]\n[2,"odd","not 2-0",[0,[2]],{"name":"d2"}]'
}

@test "lx-gather: a command may read nothing, or more than memory" {
	head -c 30000000 /dev/urandom >big
	printf 'big\n' | lx-in --read -d doc | lx-expand -d piece -s delim:Q >big.lx
	lx-gather -- true <big.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3].piece"
	assert_output '""'
	want=$(tr -d Q <big | sha256sum)
	lx-gather --mem 1M -- sha256sum <big.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -r .[3].piece"
	assert_output "$want"
}

@test "lx-gather: a child without the field, one that cannot be joined, a result over the limit fail the parent" {
	local record_limit=1100
	{
		begin
		for d in 0 1 2; do doc $d; closing $d 1; done
		echo '[1,1,[0,0],{"other":1}]'
		echo '[1,1,[1,0],{"data":[1]}]'
		page 2 0 "$(head -c 900 /dev/zero | tr '\0' x)"
		for n in 0 1 2; do page 3 $n "$(head -c 400 /dev/zero | tr '\0' x)"; done
		doc 3
		closing 3 3
	} | make >h.lx
	lx-gather -f data --max-record 1100 <h.lx >out.lx
	run verdicts out.lx
	assert_line "0 failed no-field: child 0 has no field 'data' [0]"
	lx-gather -s concat --max-record 1100 <h.lx >out.lx
	run verdicts out.lx
	assert_line --partial "0 failed no-field: child 0 has no field 'data'"
	assert_line --partial '1 failed bad-field: child 0'
	lx-gather --max-record 1100 <h.lx >out.lx
	run verdicts out.lx
	assert_line --partial '3 failed oversize: '
	assert_line --partial -- --max-record
	assert_line --partial '2 present'
}

@test "lx-gather: 64-bit numbers, floats, odd strings and ext values pass byte for byte" {
	{
		begin
		doc 0
		closing 0 1
		echo '[1,1,[0,0],{"a":18446744073709551615,"b":-9223372036854775808,"c":0.1,"d":-0.0,"e":{"$bin":"AP8="},"f":{"$ext":[5,"AAE="]},"g":{"k":[null,true]}}]'
	} | make >h.lx
	lx-gather <h.lx >out.lx
	lx-cat --canonical h.lx | grep -o '"a":.*}' | tail -1 >want
	lx-cat --canonical out.lx | grep -o '"a":.*null,true]}' >got
	[[ $(<want) == "$(<got)"* ]] || fail "$(cat want got)"
}

# ---- verdicts ----

@test "lx-gather: arrival order changes nothing" {
	{
		for d in 0 1 2 3 4 5 6 7 8 9; do
			doc $d
			closing $d 7
			for n in 0 1 2 3 4 5 6; do [[ $d.$n == 4.3 ]] && gone $d $n 1 || page $d $n; done
		done
	} >lines
	{ begin; cat lines; } | make | lx-gather >want.lx
	for seed in 1 2 3 4 5; do
		{ begin; shuf --random-source=<(yes $seed) lines; } | make >h.lx
		lx-gather <h.lx >out.lx
		same_stream want.lx out.lx
	done
	run verdicts out.lx
	assert_line '4 present 0:4-0 1:4-1 2:4-2 4:4-4 5:4-5 6:4-6'
}

@test "lx-gather: a failed child suppresses its parent with that child as the cause" {
	{
		begin
		doc 0; page 0 0; gone 0 1 2; page 0 2; closing 0 3
		page 1 0; gone 1 5 3; closing 1 6; doc 1
		doc 2; page 2 0; closing 2 1
	} | make >h.lx
	lx-gather --stats stats <h.lx >out.lx
	run verdicts out.lx
	assert_output $'0 suppressed bad-page: page 1 is bad [0,1]\n1 suppressed bad-page: page 5 is bad [1,5]\n2 present 0:2-0'
	run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[0] == 2) | .[5]'" # kept for replay
	assert_output $'{"name":"d0"}\n{"name":"d1"}'
	stat_is discarded 5
	stat_is joined 1
}

@test "lx-gather: a failed expansion fails the parent, a cancelled one suppresses it" {
	{
		begin
		doc 0; page 0 0; closing 0 1 2
		doc 1; closing 1 0 3
	} | make >h.lx
	lx-gather <h.lx >out.lx
	run verdicts out.lx
	assert_output $'0 failed exit: no good [0]\n1 suppressed exit: no good [1]'
}

@test "lx-gather: a parent that is not present passes unchanged, its children are discarded, early or late" {
	{
		begin
		page 0 0
		echo '[2,0,[0],1,null,null,"k0"]'
		page 0 1; closing 0 2
		echo '[2,0,[1],2,{"type":"x","message":"m","anchor":[0,[1]],"origin":[0,[1]]},{"keep":1},"k1"]'
		page 1 0; gone 1 1 2
	} | make >h.lx
	lx-gather --stats stats <h.lx >out.lx 2>err
	[[ ! -s err ]]
	lx-cat --canonical h.lx | grep '^\[2,0' >want
	lx-cat --canonical out.lx | diff want -
	stat_is discarded 4
	stat_is late 0
}

@test "lx-gather: a tolerance bears failures and lists them in missing" {
	{
		begin '{"n":1}'
		doc 0; page 0 0; gone 0 1 2; page 0 2; closing 0 3
		doc 1; gone 1 2 2; gone 1 0 3; page 1 1; closing 1 3
	} | make >h.lx
	lx-gather <h.lx >out.lx
	run verdicts out.lx
	assert_output $'0 present 0:0-0 2:0-2 missing [[1,"bad-page","page"]]\n1 suppressed bad-page: page 0 is bad [1,0]'
	{
		begin '{"percent":3400}'
		doc 0; gone 0 1 2; page 0 0; page 0 2; closing 0 3
		doc 1; gone 1 2 2; gone 1 0 2; page 1 1; closing 1 3
	} | make >h.lx
	lx-gather <h.lx >out.lx
	run verdicts out.lx
	assert_line '0 present 0:0-0 2:0-2 missing [[1,"bad-page","page"]]'
	assert_line '1 suppressed bad-page: page 0 is bad [1,0]'
}

@test "lx-gather: missing holds what each sibling domain of a parent lost" {
	printf 'a b\n' | lx-in --run r --lines -d text | lx-expand -d w -s delim:' ' --keep --tolerate 1 |
		lx-expand --of text -d c -s delim:a --tolerate 1 >two.lx
	lx-map -d w -o x -- sh -c '[ "$LX_ORDINAL" = 0 ] && lx-fail -t blur; echo' <two.lx |
		lx-map -d c -o x -- sh -c '[ "$LX_ORDINAL" = 1 ] && lx-fail -t noise; echo' | lx-gather -d w | lx-gather -d c | lx-out >docs
	run jq -c .missing docs
	assert_output '[[0,"blur","w"],[1,"noise","c"]]'
	# a field of that name which no gather left is written over, as any other
	printf '{"data":["a","b"],"missing":[1]}\n' | lx-in --run r --jsonl -d text | lx-expand -d w -i data --tolerate 1 |
		lx-map -d w -o x -- sh -c '[ "$LX_ORDINAL" = 0 ] && lx-fail -t blur; echo' | lx-gather -d w | lx-out >docs
	run jq -c .missing docs
	assert_output '[[0,"blur","w"]]'
}

@test "lx-gather: a cause with the parent's scope dooms it whatever the tolerance" {
	{
		begin '{"n":9}'
		doc 0; page 0 0; gone 0 1 2 '[0,[0]]'
		doc 1; page 1 0; closing 1 1
	} | make >h.lx
	lx-gather <h.lx >out.lx
	run verdicts out.lx
	assert_output $'0 suppressed bad-page: page 1 is bad [0,1]\n1 present 0:1-0'
}

@test "lx-gather: contradictions fail the parent as conflict, equal repeats are one" {
	{
		begin
		for d in 0 1 2 3 4; do doc $d; [[ $d == 2 ]] || page $d 0; done
		page 0 0 other
		closing 1 2; closing 1 3
		closing 2 1; page 2 1; page 2 0
		page 3 7; closing 3 2
		page 4 0; page 4 0; closing 4 1
	} | make >h.lx
	lx-gather --stats stats <h.lx >out.lx
	run verdicts out.lx
	assert_line '0 failed conflict: page 0 came twice with different fields [0]'
	assert_line '1 failed conflict: two different counts of page: 2 and 3 [1]'
	assert_line '2 failed conflict: page 1 in a group of 1 [2]'
	assert_line '3 failed conflict: page 7 in a group of 2 [3]'
	assert_line '4 present 0:4-0'
	stat_is duplicates 2
}

@test "lx-gather: what is missing at the true end is named" {
	{
		begin
		doc 0; closing 0 20
		for n in {0..19}; do [[ $n == 7 || $n == 9 || $n == 12 ]] || page 0 $n; done
		doc 1; page 1 0
		page 2 0; closing 2 1
	} | make >h.lx
	lx-gather <h.lx >out.lx
	run verdicts out.lx
	assert_line '0 failed incomplete: 3 of 20 children missing: 7, 9, 12 [0]'
	assert_line '1 failed incomplete: the close of its page group never came; children seen: 1 [1]'
	assert_line '2 failed orphan: its doc record never came; children seen: 1 [2]'
	run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[2] == [2])[6]'"
	assert_output null
}

@test "lx-gather: news for a parent that left is counted as late and named, but not without end" {
	{
		begin
		doc 0; page 0 0; closing 0 1
		gone 0 0 2
		doc 1; closing 1 0
		for n in {0..19}; do page 1 $n; done
	} | make >h.lx
	lx-gather --stats stats <h.lx >out.lx 2>err
	grep -q 'late: page 0.0 came' err
	[[ $(wc -l <err) == 9 ]]
	grep -q '13 more' err
	stat_is late 21
	run verdicts out.lx
	assert_output $'0 present 0:0-0\n1 present '
}

@test "lx-gather: ordinals up to 2^64-2 cost nothing" {
	{
		begin
		doc 0; page 0 9223372036854775808; closing 0 18446744073709551614
		doc 18446744073709551614; closing 18446744073709551614 0
	} | make >h.lx
	lx-gather --stats stats --mem 1M <h.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -r '.[4].message // empty'"
	[[ $output == *' of 18446744073709551614 children missing: 0, 1, 2, 3, 4, 5, 6, 7, ...' ]] || fail "$output"
	lx-cat --canonical out.lx | grep -q '^\[1,0,\[18446744073709551614\]'
	stat_is spilled_bytes 0
}

# ---- trees ----

@test "lx-gather: level by level, each domain after those below it" {
	printf 'a b|c\nd\n' | lx-in --run r --lines -d text | lx-expand -d part -s delim:'|' | lx-expand -d word -s delim:' ' >n.lx
	lx-gather -s concat <n.lx | lx-gather -f word -d part >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c .[3]"
	assert_output $'{"part":[{"ordinal":0,"word":"ab"},{"ordinal":1,"word":"c"}]}\n{"part":[{"ordinal":0,"word":"d"}]}'
	exits 2 lx-gather -d part <n.lx
	says lx-gather part word
}

@test "lx-gather: records of other domains pass at once and untouched" {
	printf 'a b\n' | lx-in --run r --lines -d text | lx-expand -d w -s delim:' ' --keep | lx-expand --of text -d c -s delim:a >two.lx
	lx-gather -d w <two.lx >out.lx
	lx-cat --canonical two.lx | grep -v '^\[[13],1,' | grep '^\[.,2' >want
	lx-cat --canonical out.lx | grep '^\[.,2' | diff want -
	lx-gather -d c <out.lx | lx-out >docs
	run jq -c '[.w | map(.data)], [.c | map(.data)]' docs
	assert_output $'[["a","b"]]\n[[""," b"]]'
}

@test "lx-gather: a page that fails with the document's scope suppresses its chapter and all beside it" {
	{
		printf '{"begin":{"run":"r","domains":["doc","chapter","page"]}}\n'
		echo '[1,0,[0],{},"k"]'
		echo '[3,1,[0],3,0,null]'
		for c in 0 1 2; do echo "[1,1,[0,$c],{}]"; done
		echo '[2,2,[0,1,0],2,{"type":"bad","message":"m","anchor":[0,[0]],"origin":[2,[0,1,0]]},null]'
		for c in 0 2; do echo "[1,2,[0,$c,0],{}]"; echo "[3,2,[0,$c],2,0,null]"; done
	} | make >h.lx
	lx-gather <h.lx >out.lx
	run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[1] == 1 and .[0] == 2) | [.[2], .[3], .[4].type]'"
	assert_output $'[[0,0],3,"bad"]\n[[0,1],3,"bad"]\n[[0,2],3,"bad"]'
	lx-gather -d chapter <out.lx | lx-cat --canonical >doc
	run jq -c '[.[3], .[4].origin]' doc
	assert_output '[3,[2,[0,1,0]]]'
}

@test "lx-gather: a dropped or failed document bars its chapters" {
	for o in 1 2; do
		{
			printf '{"begin":{"run":"r","domains":["doc","chapter","page"]}}\n'
			echo '[1,1,[0,0],{"f":1}]'
			echo '[1,2,[0,0,0],{}]'
			echo "[2,0,[0],$o,{\"type\":\"bad\",\"message\":\"m\",\"anchor\":[0,[0]],\"origin\":[0,[0]]},null,\"k\"]"
			echo '[1,2,[0,1,0],{}]'
			echo '[1,1,[0,1],{"f":1}]'
		} | make >h.lx
		lx-gather --stats stats <h.lx >out.lx
		run bash -c "lx-cat --canonical out.lx | jq -c 'select(.[1] == 1) | [.[2], .[3], .[5]]'"
		[[ $o == 1 ]] && assert_output $'[[0,0],1,null]\n[[0,1],1,null]' || assert_output $'[[0,0],3,{"f":1}]\n[[0,1],3,{"f":1}]'
		stat_is discarded 2
	done
}

# ---- when ----

# The parents that have come out so far, as their ids.
out_so_far() { lx-cat --json out.lx 2>/dev/null | jq -r 'if type == "array" and .[1] == 0 then .[2][0] else empty end' | sort -n | tr '\n' ' '; }
has_come() { [[ $(out_so_far) == *"$1 "* ]]; }

@test "lx-gather: a parent leaves as soon as its own children are there, or it is doomed" {
	mkfifo feed
	lx-gather <feed >out.lx 3>&- &
	BG+=($!)
	exec 7>feed
	{ begin; doc 0; doc 1; doc 2; page 1 0; closing 1 1; page 0 0; gone 2 3 2; closing 0 2; echo '{"flush":0}'; page 0 1; } | make >part
	# all but the frame with the last page and the end mark
	size=$(first_frame part)
	head -c "$size" part >&7
	wait_for 20 has_come 1
	wait_for 20 has_come 2
	[[ $(out_so_far) == '1 2 ' ]]
	tail -c +$((size + 1)) part >&7
	exec 7>&-
	wait "${BG[0]}"
	[[ $(out_so_far) == '0 1 2 ' ]]
}

# wide DOCS PAGES BYTES: all first pages, all second ones, ...: nothing is complete before the last
wide() {
	begin
	awk -v d="$1" -v p="$2" -v b="$3" 'BEGIN {
		while (length(s) < b) s = s "abcdefghij"
		for (i = 0; i < d; i++) printf "[1,0,[%d],{\"name\":\"d%d\"},\"k\"]\n[3,1,[%d],%d,0,null]\n", i, i, i, p
		for (n = 0; n < p; n++) for (i = 0; i < d; i++) printf "[1,1,[%d,%d],{\"data\":\"%d-%d-%s\"}]\n", i, n, i, n, s
	}'
}

@test "lx-gather: beyond --mem it spills, and nothing else changes" {
	wide 1500 10 300 | make >w.lx
	lx-gather --mem 1M --stats stats <w.lx >small.lx
	(($(jq -s 'last.spilled_bytes' stats) > 2000000))
	(($(jq -s 'last.peak_bytes' stats) <= 1048576))
	lx-gather --stats stats <w.lx >large.lx
	stat_is spilled_bytes 0
	same_stream small.lx large.lx
	lx-gather --mem 1M -s concat <w.lx | lx-cat --canonical | jq -r .[3].page | sha256sum >a
	lx-cat --canonical large.lx | jq -r '.[3].page | map(.data) | join("")' | sha256sum | diff a -
}

@test "lx-gather: one parent larger than memory" {
	wide 1 20000 300 | make >w.lx
	lx-gather --mem 1M --stats stats <w.lx >small.lx
	(($(jq -s 'last.spilled_bytes' stats) > 4000000))
	lx-gather <w.lx >large.lx
	same_stream small.lx large.lx
}

@test "lx-gather: a complete parent on disk leaves when the input pauses" {
	wide 1500 10 300 >lines
	head -n -10 lines >most # ten documents lack their last page
	{ cat most; echo '{"flush":0}'; tail -n 10 lines; } | make >w.lx
	size=$(first_frame w.lx)
	mkfifo feed
	lx-gather --mem 1M -s concat <feed >out.lx 3>&- &
	BG+=($!)
	exec 7>feed
	head -c "$size" w.lx >&7
	all_but_ten() { [[ $(out_so_far | wc -w) == 1490 ]]; }
	wait_for 60 all_but_ten
	tail -c +$((size + 1)) w.lx >&7
	exec 7>&-
	wait "${BG[0]}"
	[[ $(out_so_far | wc -w) == 1500 ]]
}

@test "lx-gather: input that is cut: what is complete comes out, also from disk, and nothing unfinished gets a verdict" {
	wide 1500 10 300 >lines
	for mem in 1M 100M; do
		{ head -n -10 lines; echo '{"flush":0}'; tail -n 10 lines; } | make >w.lx
		size=$(first_frame w.lx)
		head -c "$((size + 9))" w.lx >cut.lx
		exits 3 lx-gather --mem $mem <cut.lx
		says truncated
		cp out out.lx
		[[ $(out_so_far | wc -w) == 1490 ]]
		lx-cat --json out.lx 2>/dev/null | jq -c 'select(type == "array") | select(.[0] != 1 or .[1] != 0)' >other || true
		[[ ! -s other ]] || fail "$(<other)"
		exits 3 lx-cat --canonical out.lx
	done
}

@test "lx-gather: a full disk below --tmpdir is exit 5 and names it" {
	wide 1500 10 300 | make >w.lx
	mkdir tmp
	# the limit is for files: what lies in a pipe is not touched by it
	got=0
	(trap '' XFSZ; ulimit -f 512; lx-gather --mem 1M --tmpdir "$PWD/tmp" <w.lx 2>&1 >&9 | cat >err; exit "${PIPESTATUS[0]}") 9> >(cat >out) || got=$?
	[[ $got == 5 ]] || fail "exit $got: $(<err)"
	says "$PWD/tmp" --tmpdir
	exits 5 lx-gather --mem 1M --tmpdir "$PWD/none" <w.lx
	says "$PWD/none" --tmpdir
	[[ -z $(ls -A tmp) ]]
}

@test "lx-gather: memory is flat in the number of finished parents" {
	for n in 20000 200000; do
		seq $n | lx-in --lines -d text | lx-expand -d w -s delim:' ' | lx-gather --stats stats -s concat >/dev/null
		jq -s 'last.max_rss_kb' stats
	done >rss
	sanitized || (($(tail -1 rss) < $(head -1 rss) + 2000)) || fail "$(<rss)"
}

# ---- the house ----

@test "lx-gather: shape errors are refused from the begin mark" {
	printf 'a\n' | lx-in --lines -d text >root.lx
	exits 2 lx-gather -- touch ran <root.lx
	says lx-gather text lx-expand
	lx-gather <in.lx >g.lx
	exits 2 lx-gather -d word -- touch ran <g.lx
	says word gathered
	exits 2 lx-gather -d page <in.lx
	says "no domain 'page'" text word
	exits 2 lx-gather -s concat -i nothing <in.lx
	says "field 'nothing'" -i data
	exits 2 lx-gather -f nothing <in.lx
	says "field 'nothing'" -f
	exits 2 lx-gather -s csv <in.lx
	says csv concat
	exits 2 lx-gather -f data -s concat <in.lx
	says -f -i
	exits 2 lx-gather -i data <in.lx
	says -i -f
	exits 2 lx-gather -- no-such-command <in.lx
	says no-such-command
	exits 2 lx-gather -- cat {nothing} <in.lx
	says nothing '{{nothing}}'
	[[ ! -e ran ]]
}

@test "lx-gather: LX_CHECK stops after the marks" {
	LX_CHECK=1 lx-gather -- touch ran <in.lx >out.lx
	[[ ! -e ran && $(lx-cat --canonical out.lx | wc -l) == 0 ]]
}

@test "lx-gather: several runs in one input, each with its own end" {
	for r in a b; do printf 'x y\n' | lx-in --run $r --lines -d text | lx-expand -d word -s delim:' '; done >two.lx
	lx-gather --stats stats <two.lx >out.lx
	[[ $(lx-cat --canonical out.lx | wc -l) == 2 && $(wc -l <stats) == 2 ]]
	printf 'x y\n' | lx-in --run a --lines -d text | lx-expand -d word -s delim:' ' | lx-gather >one.lx
	for r in a b; do printf 'x y\n' | lx-in --run $r --lines -d text | lx-expand -d word -s delim:' ' | lx-gather; done >want.lx
	same_stream want.lx out.lx
}

@test "lx-gather: two segments of one run are gathered as one" {
	{ begin; doc 0; page 0 1; } | make >one.lx
	{ begin; page 0 0; closing 0 2; } | make >two.lx
	cat one.lx two.lx | lx-gather >out.lx
	run verdicts out.lx
	assert_output '0 present 0:0-0 1:0-1'
}

@test "lx-gather: the standard checks of every stage" {
	stage_empty empty.lx lx-gather
	stage_empty empty.lx lx-gather -- cat
	stage_cut in.lx lx-gather
	stage_full in.lx lx-gather
	stage_full in.lx lx-gather -- cat
	stage_gone in.lx lx-gather
	stage_gone in.lx lx-gather -s concat -- cat
}

@test "lx-gather: --stats adds up" {
	{
		begin '{"n":1}'
		doc 0; page 0 0; gone 0 1 2; gone 0 2 1; page 0 3; page 0 3; closing 0 4
		doc 1; gone 1 0 2; gone 1 1 3; page 1 2; closing 1 3
	} | make >h.lx
	lx-gather --stats stats <h.lx >out.lx
	for kv in children:8 joined:2 dropped:1 failed:1 suppressed:0 discarded:3 duplicates:1 late:0 orphans:0; do
		stat_is "${kv%:*}" "${kv#*:}"
	done
}

@test "lx-gather: --trace has the verdict on each parent" {
	printf 'a b\nbad\nc\n' | lx-in --run r --lines -d doc | lx-expand -d word --keep -s delim:" " | lx-filter -d doc --not "data==c" |
		lx-map -d word -o v -- sh -c 'read -r w; [ "$w" != bad ]' | lx-gather --trace trace >/dev/null
	[[ $(jq -r '"\(.domain) \(.id) \(.event)"' trace | sort) == $'doc 0 present\ndoc 1 suppressed\ndoc 2 dropped' ]] || fail "$(<trace)"
}
