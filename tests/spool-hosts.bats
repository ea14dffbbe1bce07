# Jobs of GNU parallel on real machines (hosts.bash): files there, results back, whatever a host does.
load lib
load hosts

setup_file() { hosts_up a b; }
teardown_file() { hosts_down; }

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	NET=$BATS_FILE_TMPDIR/net
	read -r SPACES <"$NET/spaces" || SPACES=
	export HOME=$PWD PARALLEL="--wd $PWD/there" # all hosts share one file system here
	rm -f "$NET"/{a,b}/bin/*
}

words() { hub "$ROOT/examples/parallel-words.sh" -o o -n 8 "$@" "$DATA" 2>err 3>&-; }
# What a pipe on one machine gives.
local_words() {
	find "$DATA" -name '*.pdf' -print0 | sort -z | lx-in -0 -d doc | lx-expand -d page -s 'delim:\f' -- pdftotext -q {path} - |
		lx-map -o words:int --drop data -- wc -w | lx-gather -d page | lx-out -q --ordered --max-failed 100%
}
# on HOST: what happens there before a job of the second batch; it may exit.
on() {
	printf '%s\n' '#!/bin/sh' "case \"\$*\" in *000002.lx*) $2 ;; esac" "exec $B/bin/lx-map \"\$@\"" >"$NET/$1/bin/lx-map"
	chmod +x "$NET/$1/bin/lx-map"
}

@test "GNU parallel: on two hosts the same result as here, and nothing is left there" {
	words -S 2/a,2/b || fail "$(<err)"
	local_words >want
	cmp want o/words.jsonl
	awk 'NR > 1 { print $2 }' o/joblog | sort -u >used
	[[ -s used ]] && ! grep -qvE '^2?/?[ab]$' used
	[[ -z $(find there -type f 2>/dev/null) ]]
}

@test "GNU parallel: a host on which jobs fail leaves the work to the other" {
	on a 'exit 9'
	on b ''
	words -S 1/a,1/b || fail "$(<err)"
	local_words >want
	cmp want o/words.jsonl
}

@test "GNU parallel: a result that is lost on its way is missed, whatever the log says" {
	on a "[ -e $PWD/lost ] || { touch $PWD/lost; exit 0; }"
	words -S 1/a || fail "$(<err)"
	[[ -e lost && $(awk 'NR == 3 { print $7 }' o/joblog) == 0 ]]
	local_words >want
	cmp want o/words.jsonl
}
