# LX_RUN: barriers travel upstream, work for a parent that has failed ends, and no verdict changes.
load lib

# A document a line: its name, then what its command prints. Lines that begin with `bad` fail their document.
docs() { printf '{"name":"%s","run":"%s"}\n' "$@" | lx-in --run r --jsonl -d doc; }
expand() { lx-expand -d line --env run --stats expand "$@" -- sh -c 'eval "$LX_FIELD_run"'; }
judge() { lx-map -o v -- sh -c 'read -r l; case $l in bad*) exec lx-fail --scope parent -t rotten "$l";; esac; echo "$l"'; }
verdicts() { jq -c '[.lx.id, .lx.outcome, .lx.cause.type, .lx.cause.message, .lx.cause.origin]' "$@"; }

@test "ledger: a command that never ends is ended once its parent has failed" {
	mkdir run
	LX_RUN=$PWD/run timeout 120 bash -c "$(declare -f docs expand judge)
		docs one 'seq 3' two 'echo bad; while :; do echo more; done' three 'seq 4' | expand | judge | lx-gather | lx-out -q --failures bad --max-failed 1" >out
	[[ $(jq -c '[.name, (.line | map(.v))]' out) == $'["one",["1","2","3"]]\n["three",["1","2","3","4"]]' ]] || fail "$(<out)"
	[[ $(verdicts bad) == '[[1],"suppressed","rotten","bad",["line",[1,0]]]' ]] || fail "$(<bad)"
	# one line, as lx(7) has it
	[[ $(<run/barriers) == $'r\tdoc\t1\trotten\tdoc:1\tline:1.0\tlx-map\tbad' ]] || fail "$(cat -A run/barriers)"
}

@test "ledger: a silent command is ended too, and its group" {
	mkdir run
	LX_RUN=$PWD/run timeout 120 bash -c "$(declare -f docs expand judge)
		docs one 'echo bad; sleep 1000 & echo \$! >pid; wait' two 'seq 2' | expand | judge | lx-gather | lx-out -q --max-failed 1" >out
	[[ $(jq -r .name out) == two ]]
	wait_for 30 gone "$(<pid)"
}

@test "ledger: verdicts and documents are the same with and without it" {
	mkdir run
	set -- $(for ((i = 0; i < 40; i++)); do ((i % 5 == 2)) && echo "d$i seq_3;echo_bad;seq_5" || echo "d$i seq_$((i % 7))"; done)
	set -- "${@//_/ }"
	docs "$@" | expand -j 3 | judge | lx-gather | lx-out -q --failures without.bad --max-failed 100% >without
	export LX_RUN=$PWD/run
	docs "$@" | expand -j 3 | judge | lx-gather | lx-out -q --failures with.bad --max-failed 100% >with
	diff <(sort without) <(sort with)
	diff <(verdicts without.bad | sort) <(verdicts with.bad | sort)
	[[ $(wc -l <with.bad) == 8 && $(wc -l <with) == 32 ]]
	[[ $(cut -f 1,2,4 run/barriers | sort -u) == $'r\tdoc\trotten' && $(wc -l <run/barriers) == 8 ]] || fail "$(<run/barriers)"
	"$PY" "$ROOT/tests/random_pipelines.py" -s 28 -n 4
}

@test "ledger: a field that is split in process is left when its parent has failed" {
	mkdir run
	# The judge of the first child tells, the others wait in the pipe: the close says how many were made.
	export LX_RUN=$PWD/run
	{ echo 'one two'; echo bad; } | lx-in --run r --lines -d doc >in.lx
	printf 'r\tdoc\t1\trotten\tdoc:1\tline:1.0\tlx-map\tbad\n' >line
	mkfifo hold
	bg bash -c "cat in.lx hold | lx-expand -d line -s delim:' ' >out.lx"
	came() { lx-cat --json out.lx 2>/dev/null | grep -q '^\[1,1,\[0,1\],'; }
	wait_for 30 came
	cat line >>run/barriers
	: >hold
	wait_for 30 gone "$PID"
	lx-cat --json out.lx >/dev/null
	# millions of children of a parent that is failed from outside while they are made
	awk 'BEGIN { for (i = 0; i < 4000000; i++) printf "x "; print "" }' | lx-in --run r --lines -d doc >big.lx
	rm run/barriers
	lx-expand -d line -s delim:' ' --stats expand <big.lx | lx-map -d line -j 1 -- sh -c 'exec lx-fail --scope parent -t rotten no' |
		lx-gather | lx-out -q --failures bad --max-failed 1
	[[ $(jq -c '[.lx.outcome, .lx.cause.type]' bad) == '["suppressed","rotten"]' ]]
	(($(jq .out.line.present expand) < 4000000)) || fail "all were made"
}

@test "ledger: more failures than are borne, counted where none was judged alone" {
	mkdir run
	export LX_RUN=$PWD/run
	timeout 120 bash -c "$(declare -f docs expand)
		docs one 'seq 3' two 'echo bad1; echo bad2; echo bad3; while :; do echo more; done' | expand --tolerate 2 |
		lx-map -o a -- sh -c 'read -r l; [ \$l != bad1 ]' | lx-map -o b -- sh -c 'read -r l; [ \$l != bad2 ] && [ \$l != bad3 ]' |
		lx-gather | lx-out -q --failures bad --max-failed 1" >out
	[[ $(jq -r .name out) == one && $(jq -r .lx.id[0] bad) == 1 ]] || fail "$(<bad)"
	[[ $(cut -f 1-3 run/barriers | sort -u) == $'r\tdoc\t1' ]] || fail "$(<run/barriers)"
}

@test "ledger: a failure two domains below stops both expansions" {
	mkdir run
	export LX_RUN=$PWD/run
	timeout 120 bash -c "$(declare -f docs)
		docs one 'echo a' two 'while :; do echo b; done' | lx-expand -d page --env run -- sh -c 'eval \"\$LX_FIELD_run\"' |
		lx-expand -d word -- sh -c 'while :; do echo w; [ \"\$1\" = b ] || exit 0; done' sh {data} |
		lx-map -o v -- sh -c 'case \$LX_ID in 1.*) exec lx-fail --scope doc -t rotten no;; esac; echo ok' |
		lx-gather | lx-gather | lx-out -q --failures bad --max-failed 1" >out
	[[ $(jq -r .name out) == one && $(jq -c '[.lx.id, .lx.cause.type]' bad) == '[[1],"rotten"]' ]] || fail "$(<out) $(<bad)"
}

@test "ledger: what failed in a domain that is opened further on is told as what it is" {
	mkdir run
	export LX_RUN=$PWD/run
	mkfifo feed
	bg bash -c "lx-in --run r --lines -d doc <feed | lx-expand -d line -s delim:' ' >out.lx"
	exec 8>feed
	echo 'one two' >&8
	came() { lx-cat --json out.lx 2>/dev/null | grep -q '^\[3,1,\[0\],2,'; }
	wait_for 30 came
	sleep 0.02 # the next look at the file is more than 5 ms behind the last, which was before that came
	printf 'r\tdoc\t1\trotten\tdoc:1\tword:1.0.0\tlx-map\tno\n' >>run/barriers
	echo 'three four' >&8
	exec 8>&-
	wait_for 30 gone "$PID"
	lx-expand -d word -s delim:- <out.lx | lx-gather | lx-gather | lx-out -q --failures bad --max-failed 1 >out
	[[ $(verdicts bad) == '[[1],"suppressed","rotten","no",["word",[1,0,0]]]' ]] || fail "$(<bad)"
	[[ $(jq -c '.lx.cause | [.where, .judged]' bad) == '["line 1, word 1",null]' ]] || fail "$(<bad)"
}

@test "ledger: lines that are none, of another run, cut, or for nobody change nothing" {
	mkdir run
	export LX_RUN=$PWD/run
	local good=$'r\tdoc\t0\trotten\tdoc:0\tline:0.0\tlx-map\tno' i
	docs one 'until [ -e go ]; do sleep 0.02; done; seq 3' >in.lx
	bg bash -c "$(declare -f expand); expand <in.lx | lx-gather | lx-out -q >out"
	wait_for 30 test -e run/barriers
	for ((i = 0; i < ${#good}; i++)); do printf '%s\n' "${good:0:i}"; done | grep -v $'lx-map\t' >>run/barriers
	printf '%s\n' $'other\tdoc\t0\trotten\tdoc:0\tline:0.0\tlx-map\tno' $'r\tpage\t0\trotten\tdoc:0\tline:0.0\tlx-map\tno' \
		$'r\tdoc\t0.1\trotten\tdoc:0\tline:0.0\tlx-map\tno' $'r\tdoc\t99999999999999999999\trotten\tdoc:0\tx\tlx-map\tno' \
		$'r\tdoc\t0.\trotten\tdoc:0\tline:0.0\tlx-map\tno' $'r\tdoc\t0\tro\\xzzten\tdoc:0\tline:0.0\tlx-map\tno' $'r\tdoc\t0\t\tdoc:0\tline:0.0\tlx-map\tno' \
		$'r\tdoc\t7\trotten\tdoc:7\tline:7.0\tlx-map\tno' "$good"$'\tmore' >>run/barriers
	head -c 300000 /dev/zero | tr '\0' x >>run/barriers
	printf '\n' >>run/barriers
	head -c 100000 /dev/urandom >>run/barriers
	: >go
	wait_for 60 gone "$PID"
	[[ $(jq -c '[.line[].data]' out) == '["1","2","3"]' ]] || fail "$(<out)"
}

@test "ledger: what an earlier attempt wrote does not count, what is removed or emptied costs nothing" {
	mkdir run
	export LX_RUN=$PWD/run
	printf 'r\tdoc\t0\trotten\tdoc:0\tline:0.0\tlx-map\tno\n' >run/barriers
	docs one 'rm run/barriers; seq 3; : >run/barriers' two 'echo bad; seq 3' | expand | judge | lx-gather | lx-out -q --max-failed 1 >out
	[[ $(jq -r .name out) == one ]]
}

@test "ledger: a directory that is none is refused, and a file that is none" {
	docs one 'seq 1' >in.lx
	LX_RUN=$PWD/none exits 2 lx-map -d doc -i name -- cat <in.lx
	says LX_RUN none
	mkdir a b c
	mkfifo a/barriers
	mkdir b/barriers
	ln -s /dev/zero c/barriers
	for d in a b c; do
		LX_RUN=$PWD/$d exits 2 lx-map -d doc -i name -- cat <in.lx
		says LX_RUN "'barriers' in it is no regular file"
	done
	LX_RUN=in.lx exits 2 lx-map -d doc -i name -- cat <in.lx
	says 'LX_RUN=in.lx: Not a directory (name another directory'
	LX_RUN='' lx-map -d doc -i name -- cat <in.lx >/dev/null
}

@test "ledger: who refuses the directory says so once, and the pipeline ends with that status" {
	got=0
	bash -c "echo 'a b' | lx-in --lines -d doc | LX_RUN=$PWD/none lx-expand -d line -s delim:' ' | lx-gather | lx-out" >out 2>err 3>&- || got=$?
	[[ $got == 2 ]] || fail "exit $got: $(<err)"
	says lx-expand LX_RUN none 'make the directory'
	got=0
	(export LX_RUN=$PWD/none && echo 'a b' | lx-in --lines -d doc | lx-expand -d line -s delim:' ' | lx-batch | lx-gather | lx-out) >out 2>err 3>&- || got=$?
	[[ $got == 2 ]] || fail "exit $got: $(<err)"
	says lx-expand LX_RUN none 'make the directory'
	mkdir run
	LX_CHECK=1 LX_RUN=$PWD/run lx-map -d doc -i name -- cat < <(docs one 'seq 1') >/dev/null
	[[ ! -e run/barriers ]]
}

@test "ledger: a full disk costs work, and nothing else" {
	mkdir run
	export LX_RUN=$PWD/run
	# a limit on the size of files stands for it: the write fails
	head -c 4000000 /dev/zero >run/barriers
	docs one 'seq 3' two 'echo bad; seq 3' | expand >in.lx
	(trap '' XFSZ; ulimit -f 1000; judge <in.lx | cat) | lx-gather | lx-out -q --failures bad --max-failed 1 >out
	[[ $(jq -r .name out) == one && $(jq -r .lx.cause.type bad) == rotten ]]
	[[ $(stat -c %s run/barriers) == 4000000 ]]
}

@test "ledger: workers of lx-batch learn from it, and leave the ledger to it" {
	mkdir run
	export LX_RUN=$PWD/run
	docs one 'seq 3' | lx-expand -d line --env run -- sh -c 'eval "$LX_FIELD_run"' |
		lx-batch -- lx-map -o v -- sh -c 'echo "${LX_RUN-none}"' | lx-gather | lx-out -q >out
	[[ $(jq -c '.line | map(.v)' out) == '["none","none","none"]' ]] || fail "$(<out)"
	# a failure in a worker is told once, with its cause
	docs one 'echo bad; seq 3' | lx-expand -d line --env run -- sh -c 'eval "$LX_FIELD_run"' |
		lx-batch -n 1 -j 2 -- lx-map -o v -- sh -c 'read -r l; case $l in bad) exec lx-fail --scope parent -t rotten "$l";; esac' |
		lx-gather | lx-out -q --max-failed 1
	[[ $(cut -f 1-4,6 run/barriers) == $'r\tdoc\t0\trotten\tline:0.0' ]] || fail "$(<run/barriers)"
}
