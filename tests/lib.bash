# Helpers for every tests/*.bats file: put `load lib` first.
#
# Each test starts in an empty directory of its own (BATS_TEST_TMPDIR) with the built commands first
# in PATH. B is the build folder (default ./build); tests/run sets it. All limits here are upper
# bounds of a wait for a condition, never a sleep that has to be long enough.
# shellcheck shell=bash
bats_load_library bats-support
bats_load_library bats-assert

ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
B=${B:-$ROOT/build}
case $B in /*) ;; *) B=$ROOT/$B ;; esac
DATA=$ROOT/examples/data
PY=/usr/bin/python3
export PATH=$B/bin:$PATH LC_ALL=C.UTF-8
export ROOT B DATA PY PYTHONPATH=$ROOT/tests PYTHONDONTWRITEBYTECODE=1
unset LX_CHECK LX_RUN LX_FAIL MAKEFLAGS MFLAGS MAKELEVEL

# True in a build with sanitizers, where memory and time are no measure of ours.
sanitized() { [[ $B == *-address* ]]; }

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# End what `bg` started, whatever became of the test.
teardown() {
	local p
	for p in "${BG[@]}"; do
		kill -KILL -- "-$p" 2>/dev/null || kill -KILL "$p" 2>/dev/null || true
	done
	[[ ${#BG[@]} == 0 ]] || wait "${BG[@]}" 2>/dev/null || true
}

# bg COMMAND...: start in the background in a process group of its own, without bats' descriptor 3. Its pid is in $PID.
BG=()
bg() {
	setsid -- "$@" 3>&- &
	PID=$!
	BG+=("$PID")
}

# wait_for SECONDS COMMAND...: until COMMAND succeeds; fails when it has not after SECONDS.
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || fail "waited in vain for: $*"
		sleep 0.02
	done
}
gone() { ! kill -0 "$1" 2>/dev/null; }

# exits STATUS COMMAND...: run COMMAND, stdout to ./out, stderr to ./err, and require the exit status.
# $output is stderr afterwards, for assert_output.
exits() {
	local want=$1 got=0
	shift
	"$@" >out 2>err || got=$?
	output=$(<err)
	[[ $got == "$want" ]] || fail "exit $got, not $want: $*"$'\n'"$output"
}

# One line on stderr (in ./err) that holds each of the strings.
says() {
	local s
	[[ $(wc -l <err) == 1 ]] || fail "not one line on stderr: $(<err)"
	for s; do
		grep -qF -- "$s" err || fail "stderr lacks '$s': $(<err)"
	done
}

canonical() { lx-cat --canonical "$@"; }

# same_stream A B: both files are complete streams and equal in every promise (lx-cat --canonical).
same_stream() {
	canonical "$1" >.a.canon || fail "$1 is not a complete stream"
	canonical "$2" >.b.canon || fail "$2 is not a complete stream"
	diff .a.canon .b.canon >.diff || fail "$1 and $2 differ: $(head -20 .diff)"
}

# tree: a small stream with one domain below the root: docs (default 3) of three lines each, as doc and line.
tree() {
	local i n=${1:-3}
	for ((i = 0; i < n; i++)); do printf 'd%d-a\nd%d-b\nd%d-c\0' $i $i $i; done |
		tr '\n\0' ' \n' | lx-in --run test --lines -d doc | lx-expand -d line -s delim:' '
}

# ---- the standard checks of every stage; COMMAND reads a stream on stdin ----

# An empty stream (begin and end mark) in gives a complete empty stream out. $1: a file that holds the empty stream.
stage_empty() {
	local in=$1
	shift
	"$@" <"$in" >out || fail "exit $? on an empty stream: $*"
	canonical out >.a.canon || fail "what came out is not a complete stream: $*"
	[[ ! -s .a.canon ]] || fail "records out of an empty stream: $(<.a.canon)"
}

# The stream cut after every byte (every seventh with sanitizers, which make a start ten times slower): exit 3,
# a reason on stderr, and what came out has no end mark either.
stage_cut() {
	local in=$1 size i got step=1
	shift
	! sanitized || step=7
	size=$(stat -c %s "$in")
	for ((i = 0; i < size; i += step)); do
		got=0
		head -c "$i" "$in" >.cut
		"$@" <.cut >out 2>err || got=$?
		[[ $got == 3 ]] || fail "exit $got, not 3, when cut after $i of $size bytes: $* $(<err)"
		[[ -s err ]] || fail "no reason given when cut after $i bytes"
		got=0
		lx-cat out >/dev/null 2>&1 || got=$?
		[[ $got == 3 ]] || fail "cut after $i bytes, but its output reads with exit $got"
	done
}

# A full disk: exit 5, one reason. $1: input file.
stage_full() {
	local in=$1 got=0
	shift
	"$@" <"$in" >/dev/full 2>err || got=$?
	[[ $got == 5 ]] || fail "exit $got, not 5, on a full disk: $(<err)"
	says 'space'
}

# The reader is gone: a quiet death by SIGPIPE (141). $1: input file.
stage_gone() {
	local in=$1 got=0
	shift
	rm -f .gone
	mkfifo .gone
	exec 9<>.gone 8>.gone 9<&- # a pipe whose reader has left
	"$@" <"$in" >&8 2>err 3>&- || got=$?
	exec 8>&-
	[[ $got == 141 ]] || fail "exit $got, not 141, with the reader gone: $(<err)"
	[[ ! -s err ]] || fail "not quiet: $(<err)"
}
