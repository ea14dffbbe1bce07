# What all commands share (cmd/cmd.c): usage, --to, --stats, reasons said once, signals.
load lib

commands() { for c in "$ROOT"/cmd/lx-*.c; do basename "$c" .c; done; }
three() { printf 'a b\nc\nd e f\n' | lx-in --run r --lines -d doc; }
bytes_in() { (($(stat -c %s "$1") >= $2)); }

@test "every command: -h prints the usage and -V the version on stdout" {
	local c
	for c in $(commands); do
		exits 0 "$c" -h
		[[ ! -s err && $(head -1 out) == "usage: $c"* ]] || fail "$c -h: $(cat out err)"
		exits 0 "$c" --version
		[[ ! -s err && $(<out) =~ ^"$c "[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$c -V: $(cat out err)"
	done
}

@test "every command: a usage that does not arrive is exit 5" {
	local c got
	for c in $(commands); do
		got=0
		"$c" -h >/dev/full 2>err || got=$?
		[[ $got == 5 ]] || fail "$c -h on a full disk: exit $got"
		says "$c: stdout" 'No space left'
	done
}

@test "every command: an unknown option is exit 2 and one line" {
	local c got
	for c in $(commands); do
		exits 2 "$c" --no-such-option </dev/null
		says "$c: unknown or ambiguous option --no-such-option"
		# A stage says in the stream why nothing comes; nobody writes anything else.
		if [[ -s out ]]; then
			got=0
			lx-cat --json out >json 2>/dev/null || got=$?
			[[ $got == 2 && $(jq -r '.abort.stage' json) == "$c" ]] || fail "$c wrote something: $(<json)"
		fi
	done
}

@test "stages: a terminal is no stream" {
	local c
	for c in lx-cat lx-expand lx-out; do
		case $c in lx-expand) set -- -d x ;; lx-cat) set -- -q ;; *) set -- ;; esac
		script -qec "$c $*" /dev/null </dev/null >out 3>&- || true
		grep -q "$c: stdin is a terminal" out || fail "$c: $(<out)"
	done
}

@test "limits and packing: what is out of range is named with its option" {
	exits 2 lx-cat --max-depth 65 </dev/null
	says 'lx-cat: --max-depth: 65 is above 64'
	exits 2 lx-cat --max-id 0 </dev/null
	says 'lx-cat: --max-id: 0 is below 1'
	exits 2 lx-cat --compress lz4 </dev/null
	says "lx-cat: --compress: 'lz4' is none of raw, checked, zstd, zstd:LEVEL"
	exits 2 lx-cat --compress zstd:20 </dev/null
	says 'lx-cat: --compress: level: 20 is above 19'
}

@test "--to: replaces the file when all is well, and only then" {
	three >in.lx
	echo old >file
	mkdir d
	lx-cat --to file <in.lx >out
	[[ ! -s out ]]
	same_stream in.lx file
	echo old >file
	head -c $(($(stat -c %s in.lx) - 1)) in.lx >cut.lx
	exits 3 lx-cat --to file <cut.lx
	[[ $(<file) == old ]]
	exits 3 lx-cat --to d/new <cut.lx
	[[ -z $(ls -A d) ]] || fail "left behind: $(ls -A d)"
	LX_CHECK=1 lx-cat --to d/new <in.lx
	[[ -z $(ls -A d) ]] || fail "LX_CHECK wrote: $(ls -A d)"
}

@test "--to: what cannot be written is exit 5 and names the file" {
	three >in.lx
	exits 5 lx-cat --to no/such/dir/file <in.lx
	says 'lx-cat: --to: no/such/dir/file: No such file or directory'
	exits 5 lx-cat --to /dev/full <in.lx
	says 'No space left'
}

@test "--to: too many failed items are exit 1, and the file is there" {
	three | lx-expand -d word -s delim:' ' -- sh -c 'exit 3' | lx-gather >in.lx
	exits 1 lx-out -q --to out.json --failures bad.json <in.lx
	[[ -e out.json && $(wc -l <bad.json) == 3 ]]
}

@test "--to: a stage that is told to end leaves no file" {
	mkfifo in
	mkdir d
	exec 8<>in
	three | head -c 200 >&8
	bg env --default-signal=INT lx-cat --to d/file in
	wait_for 30 test -e "/proc/$PID/fd/3"
	kill -TERM "$PID"
	got=0
	wait_for 30 gone "$PID"
	wait "$PID" || got=$?
	[[ $got == 143 ]] || fail "exit $got, not 143"
	[[ -z $(ls -A d) ]] || fail "left behind: $(ls -A d)"
}

@test "--stats: one JSON object of what came in and went out" {
	three | lx-expand -d word -s delim:' ' --stats s.json >/dev/null
	run jq -c '[.stage, .run, .in.doc.present, .out.doc.present, .out.word.present, .out.word.closes, .barred]' s.json
	assert_output '["lx-expand","r",3,3,6,3,0]'
	jq -e '(.wall_ms | type) == "number" and .max_rss_kb > 0 and has("cpu_ms") and has("child_cpu_ms")' s.json
	[[ $(wc -l <s.json) == 1 ]]
}

@test "--stats: a sink has nothing that went out; two runs are two lines" {
	three >a.lx
	printf 'x\n' | lx-in --run s --lines -d doc >b.lx
	cat a.lx b.lx | lx-out -q --stats s.json >/dev/null
	run jq -c '[.run, .in.doc.present, has("out")]' s.json
	assert_output '["r",3,false]
["s",1,false]'
}

@test "--stats: a file that cannot be written is exit 5" {
	three >in.lx
	exits 5 lx-cat --stats /dev/full <in.lx
	says 'No space left'
	exits 5 lx-cat --stats no/such/file <in.lx
	says 'lx-cat: --stats: no/such/file'
}

@test "--trace: a file that cannot be written is exit 5, by its own name" {
	three >in.lx
	exits 5 lx-filter --trace /dev/full '?data' <in.lx
	says 'lx-filter: --trace: write: No space left'
	exits 5 lx-filter --trace no/such/file '?data' <in.lx
	says 'lx-filter: --trace: no/such/file'
}

@test "a file over the limit of the shell is a full disk: exit 5, one line, nothing left behind" {
	head -c 2000000 /dev/urandom | base64 | lx-in --run r --lines -d doc >in.lx
	mkdir d
	exits 5 bash -c 'ulimit -f 8; lx-cat --to d/x in.lx 2>&1 >/dev/null | cat >&2; exit "${PIPESTATUS[0]}"'
	says 'lx-cat: ' 'File too large'
	exits 5 bash -c 'ulimit -f 8; lx-out --to d/x <in.lx 2>&1 >/dev/null | cat >&2; exit "${PIPESTATUS[0]}"'
	says 'lx-out: d/x: ' 'File too large'
	exits 5 bash -c 'ulimit -f 8; lx-cat --canonical --mem 1M --tmpdir d <in.lx 2>&1 >/dev/null | cat >&2; exit "${PIPESTATUS[0]}"'
	says 'lx-cat: spilling to d' 'File too large'
	[[ -z $(ls -A d) ]] || fail "left behind: $(ls -A d)"
}

@test "--stats: that it cannot be written is known before a command runs" {
	three >in.lx
	exits 5 lx-map --stats no/such/file -o n -- touch ran <in.lx
	says 'lx-map: --stats: no/such/file'
	[[ ! -e ran ]]
	exits 2 lx-map --stats s.json -d nowhere -o n -- touch ran <in.lx
	[[ ! -e s.json && ! -e ran ]]
}

@test "reasons: of several stages that end for one, only the one that found it speaks" {
	three >in.lx
	head -c 100 in.lx >cut.lx
	got=0
	{ lx-cat cut.lx | lx-cat | lx-cat | lx-cat >/dev/null; } 2>err || got=$?
	[[ $got == 3 ]] || fail "exit $got, not 3"
	says 'lx-cat: cut.lx'
	got=0
	{ lx-expand -d doc <in.lx | lx-cat | lx-out; } 2>err || got=$?
	[[ $got == 2 ]] || fail "exit $got: $(<err)"
	says 'lx-expand: '
}

@test "reasons: what stands in a file is said again, with the stage it came from" {
	three >in.lx
	lx-expand -d doc <in.lx >refused.lx 2>/dev/null || true
	exits 2 lx-cat <refused.lx
	says 'lx-cat: lx-expand: ' 'doc'
	got=0
	cat refused.lx | lx-cat >/dev/null 2>err || got=$?
	[[ $got == 2 && ! -s err ]] || fail "exit $got: $(<err)"
	got=0
	cat refused.lx | lx-cat -v >/dev/null 2>err || got=$?
	[[ $got == 2 ]]
	says 'lx-cat: lx-expand: '
}

# Start a stage on a stream that does not end; its pid in $PID. In the background of a script SIGINT is ignored.
stuck() {
	mkfifo in
	exec 8<>in
	three >all.lx
	head -c $(($(stat -c %s all.lx) - 1)) all.lx >&8
	bg "$@" bash -c 'exec lx-batch <in >out 2>err 8>&-'
	wait_for 30 bytes_in out 100
}
dies_of() {
	local got=0
	wait_for 30 gone "$PID"
	wait "$PID" || got=$?
	[[ $got == $((128 + $1)) ]] || fail "exit $got, not $((128 + $1))"
	[[ ! -s err ]] || fail "not quiet: $(<err)"
}

@test "signals: SIGTERM and SIGHUP end a stage at once, and the shell sees it" {
	stuck
	kill -TERM "$PID"
	dies_of 15
	rm in
	stuck
	kill -HUP "$PID"
	dies_of 1
}

@test "signals: a first SIGINT lets a stage drain, and the shell sees it" {
	stuck env --default-signal=INT
	kill -INT "$PID"
	tail -c 1 all.lx >&8
	exec 8>&-
	dies_of 2
	same_stream all.lx out
}

@test "signals: a second SIGINT ends a stage at once" {
	stuck env --default-signal=INT
	until gone "$PID"; do
		kill -INT "$PID" 2>/dev/null || true
		sleep 0.02
	done
	dies_of 2
}

@test "signals: a SIGHUP that was ignored at the start stays ignored" {
	stuck env --ignore-signal=HUP
	kill -HUP "$PID"
	tail -c 1 all.lx >&8
	exec 8>&-
	wait_for 30 gone "$PID"
	wait "$PID"
	same_stream all.lx out
}

@test "signals: a caller that ignores SIGPIPE does not keep a stage alive" {
	three >in.lx
	(trap '' PIPE && stage_gone in.lx lx-cat)
}

@test "--to: a link stays a link, and what is open already is written where it is" {
	lx-in --lines -d doc --run r < <(seq 3) >in.lx
	echo old >target
	ln -s target link
	lx-cat --to link <in.lx
	[[ -L link ]]
	same_stream in.lx target
	echo before >said
	lx-out -q --failures /proc/self/fd/1 <in.lx >>said
	[[ $(head -1 said) == before && $(wc -l <said) == 4 ]] || fail "$(<said)"
}
