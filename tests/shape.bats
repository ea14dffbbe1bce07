# Checked before it runs: every shape error is refused from the begin mark, before a command is started, with one line that
# names the stage and the fix. One test per error.
load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf 'a b\nc\n' | lx-in --run r --lines -d doc >docs.lx
	lx-expand -d word -s delim:' ' <docs.lx >words.lx
	lx-expand -d letter -s lines <words.lx >letters.lx
	lx-gather <words.lx >gathered.lx
}

# refused FILE STAGE WORD... -- COMMAND: exit 2, one line that holds the stage and every word, an abort mark in the stream,
# nothing else, and `ran` was not made.
refused() {
	local in=$1 words=("$2:") got=0
	shift 2
	while [[ $1 != -- ]]; do
		words+=("$1")
		shift
	done
	shift
	"$@" <"$in" >out 2>err || got=$?
	[[ $got == 2 ]] || fail "exit $got, not 2: $* $(<err)"
	says "${words[@]}"
	[[ ! -e ran ]] || fail "a command was started: $*"
	got=0
	[[ ! -s out ]] || lx-cat out >/dev/null 2>&1 || got=$?
	[[ ! -s out || $got == 2 ]] || fail "what it wrote reads with exit $got: $*"
}

@test "shape: a gather without its expand" {
	refused docs.lx lx-gather lx-expand -- lx-gather
	refused docs.lx lx-gather lx-expand -- lx-gather -s lines -- touch ran
}

@test "shape: a gather of a domain that has an open child domain" {
	refused letters.lx lx-gather word letter 'lx-gather -d letter' -- lx-gather -d word
}

@test "shape: a gather of a domain that has been gathered" {
	refused gathered.lx lx-gather word 'gathered' -- lx-gather -d word
}

@test "shape: an unknown domain" {
	refused words.lx lx-map "no domain 'page'" 'doc, word' -d -- lx-map -d page -- touch ran
	refused words.lx lx-filter "no domain 'page'" -d -- lx-filter -d page 'data==x'
	refused words.lx lx-batch "no domain 'page'" -d -- lx-batch -d page -- touch ran
	refused words.lx lx-gather "no domain 'page'" -d -- lx-gather -d page
	refused words.lx lx-expand "no domain 'page'" -- lx-expand -d x --of page -- touch ran
	refused words.lx lx-out "no domain 'page'" -d -- lx-out -d page
}

@test "shape: a domain opened twice" {
	refused words.lx lx-expand "'word' was opened before" -d -- lx-expand -d word -- touch ran
	refused gathered.lx lx-expand "'word' was opened before" -d -- lx-expand -d word -- touch ran
}

@test "shape: a domain below one that is as deep as an id can be long" {
	echo '{"begin":{"domains":["d0","d1","d2","d3","d4","d5","d6","d7","d8","d9","d10","d11","d12","d13","d14","d15"]}}' |
		"$PY" "$ROOT/tests/lxpeer.py" make >deep.lx
	refused deep.lx lx-expand d15 16 --of -- lx-expand -d more -s lines -- touch ran
	exits 0 lx-expand -d more --of d14 -s lines --to more.lx -- true <deep.lx
	exits 0 lx-cat --verify more.lx
}

@test "shape: work on a domain that has been gathered" {
	refused gathered.lx lx-map gathered -d -- lx-map -d word -- touch ran
	refused gathered.lx lx-expand gathered -- lx-expand -d x --of word -- touch ran
}

@test "shape: a sink while a domain is open" {
	refused words.lx lx-out "'word' is still open" 'lx-gather -d word' -d -- lx-out
	lx-out -q -d word <words.lx >items
	[[ $(wc -l <items) == 3 ]]
}

@test "shape: a field that nothing wrote" {
	refused words.lx lx-map "field 'text'" data -i -- lx-map -i text -- touch ran
	refused words.lx lx-map text '{{text}}' -- lx-map -- touch ran {text}
	refused words.lx lx-map "field 'text'" --env -- lx-map --env text -- touch ran
	refused words.lx lx-filter "field 'text'" data -- lx-filter 'text==x'
	refused words.lx lx-gather "field 'text'" data -f -- lx-gather -f text
	refused words.lx lx-gather "field 'text'" data -i -- lx-gather -s lines -i text
	refused words.lx lx-expand "field 'text'" data -i -- lx-expand -d x -s lines -i text
	refused words.lx lx-expand "field 'text'" --carry -- lx-expand -d x -s lines --carry text
	# what was dropped is not there any more
	lx-map -o n:int --drop data -- wc -w <words.lx >counted.lx
	refused counted.lx lx-map "field 'data'" n -i -- lx-map -i data -- touch ran
}

@test "shape: where fields cannot be known beforehand an item that lacks one fails" {
	printf '{"a":"x"}\n{"b":"y"}\n' | lx-in --jsonl -d doc | lx-map -i a -- cat | lx-out -q --failures bad --max-failed 1 >good
	[[ $(jq -c .a good) == '"x"' && $(jq -r .lx.cause.type bad) == no-field ]]
}

@test "shape: the last command of a pipeline exits 2, and the reason is said once" {
	local got=0
	bash -c 'lx-cat docs.lx | lx-gather | lx-map -- touch ran | lx-out' >out 2>err || got=$?
	[[ $got == 2 && ! -e ran ]]
	says lx-gather lx-expand
}

@test "shape: a field that a stage before has taken away names that stage and what keeps it" {
	printf 'a b\n' | lx-in --run r --lines -d doc | lx-expand -d word -s delim:' ' >in.lx
	exits 2 lx-expand -d again --of doc -s delim:' ' <in.lx
	says "'data'" doc lx-expand --keep
	lx-map -d word --drop data -o v -- cat <in.lx >m.lx
	exits 2 lx-filter -d word 'data==x' <m.lx
	says "'data'" word lx-map --drop
}
