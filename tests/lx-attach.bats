load lib
load hosts

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	W=$B/tool/worker
	tree 100 >in.lx
}
teardown_file() {
	load lib
	load hosts
	hosts_down
}

# batch [OPTION...]: lx-batch in the background on unix:s with in.lx, to out.lx and err. Its pid is in $BATCH.
batch() {
	bg sh -c 'exec lx-batch -n 4 --listen unix:s "$@" <"$0" >out.lx 2>batch.err' "${IN:-in.lx}" "$@"
	BATCH=$PID
	wait_for 10 test -S s
}
# attach ARGUMENT...: lx-attach in the background. Its pid is in $PID.
attach() { bg env --default-signal=INT lx-attach "$@" 2>>attach.err; }
# ended PID [STATUS]
ended() {
	local got=0
	wait_for 60 gone "$1"
	wait "$1" || got=$?
	[[ $got == "${2-0}" ]] || fail "exit $got, not ${2-0}: $(cat batch.err attach.err 2>/dev/null)"
}
# Answers that have come out so far: at least so many.
answered() { (($(lx-cat --json out.lx 2>/dev/null | grep -c '^\[[12],1,') >= $1)); }
joined() { (($(grep -c ' joins$' batch.err) >= $1)); }
nothing_stays() { [[ ! -e s && ! -e s.lock ]] || fail "left behind: $(ls)"; }

@test "lx-attach: workers join while it runs, and the stage ends as without" {
	batch
	[[ $(stat -c %a s) == 600 ]]
	attach unix:s -- "$W" -s 2000
	local a=$PID
	wait_for 10 answered 4
	attach unix:s "$W" -s 2000
	wait_for 10 joined 2
	ended "$BATCH"
	ended "$a"
	ended "$PID"
	same_stream in.lx out.lx
	nothing_stays
}

@test "lx-attach: workers of its own and workers that join share the work" {
	batch --stats s.json -- "$W" -s 4000
	attach unix:s -- "$W" -s 4000
	ended "$BATCH"
	ended "$PID"
	same_stream in.lx out.lx
	run jq -c '[.workers[].answered > 0]' s.json
	assert_output '[true,true]'
}

@test "lx-attach: after --for, --idle or a signal it finishes what it has and leaves" {
	local how
	for how in for idle TERM INT; do
		rm -f out.lx batch.err attach.err
		batch
		case $how in
		for) attach --for 0.3 unix:s -- "$W" -s 20000 ;;
		idle) attach --idle 0.3 unix:s -- "$W" -S 1000 ;;
		*) attach unix:s -- "$W" -s 20000 ;;
		esac
		local a=$PID want=0
		case $how in
		TERM | INT)
			wait_for 10 answered 4
			kill -"$how" "$a"
			;;&
		TERM) want=143 ;;
		INT) want=130 ;;
		esac
		ended "$a" $want
		[[ $how == idle ]] || grep -q ' leaves$' batch.err
		[[ $how == idle ]] || ! grep -q unanswered batch.err || fail "$how: $(<batch.err)"
		attach unix:s -- "$W"
		ended "$BATCH"
		same_stream in.lx out.lx
		nothing_stays
	done
}

@test "lx-attach: a second signal hands back what the worker has" {
	batch
	attach unix:s -- lx-filter -- sh -c ': >at_work; exec sleep 600'
	local a=$PID
	wait_for 10 test -e at_work
	kill -TERM "$a"
	wait_for 10 grep -q ' leaves$' batch.err
	kill -TERM "$a"
	ended "$a" 143
	attach unix:s -- "$W"
	ended "$BATCH"
	same_stream in.lx out.lx
}

@test "lx-attach: kill -9 of it charges nobody, its work goes elsewhere, and its worker ends" {
	batch --retry 0 --stats s.json
	attach unix:s -- "$W" -s 30000
	local first=$PID i
	attach unix:s -- "$W" -s 3000
	wait_for 10 answered 12
	local worker
	worker=$(pgrep -P "$first")
	kill -KILL "$first"
	wait_for 10 gone "$worker"
	ended "$BATCH"
	same_stream in.lx out.lx
	grep -q 'the connection has ended' batch.err
	run jq .crashed s.json
	assert_output 0
}

@test "lx-attach: kill -9 of its worker: it is started again, and joins anew" {
	batch --stats s.json
	attach unix:s -- "$W" -s 3000
	wait_for 10 answered 4
	pkill -KILL -P "$PID"
	ended "$BATCH"
	ended "$PID"
	same_stream in.lx out.lx
	grep -q 'died of signal 9' attach.err
	grep -q 'died of signal 9' batch.err
	(($(grep -c ' joins$' batch.err) == 2))
}

@test "lx-attach: an item that kills every worker is charged, and only that" {
	{ printf '{"data":["p","p","die","p"]}\n'; for i in {1..30}; do printf '{"data":["p","p"]}\n'; done; } |
		lx-in --run d --jsonl -d doc | lx-expand -d page -i data >d.lx
	IN=d.lx batch
	attach -q unix:s -- "$W"
	attach -q unix:s -- "$W"
	ended "$BATCH"
	lx-cat --canonical out.lx >out
	run jq -r 'select(.[0] == 2 and .[3] == 2) | (.[2] | map(tostring) | join(".")) + " " + .[4].type' out
	assert_output '0.2 crash'
	run jq -s 'map(select(.[0] != 3 and .[1] == 1)) | length' out
	assert_output 64
}

@test "lx-attach: a worker that does not start, refuses, or does other work is named; the stage goes on" {
	batch
	exits 6 lx-attach -q unix:s -- false
	says 'failed too often' false
	exits 2 lx-attach -q unix:s -- lx-expand -d part -s delim:' '
	exits 2 lx-attach unix:s -- no-such-command
	says no-such-command
	attach unix:s -- "$W" -s 20000
	wait_for 10 answered 4
	exits 2 lx-attach unix:s -- lx-map -o other -- true
	grep -q "does other work than the first worker, it writes field 'other'" batch.err || fail "$(<batch.err)"
}

@test "lx-attach: the socket is not for others" {
	local got=0
	if [[ $(id -u) != 0 ]]; then
		# nobody to connect as: its mode is all that can be looked at
		batch
		[[ $(stat -c %a s) == 600 ]]
		return
	fi
	chmod 755 "$BATS_TEST_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR" 2>/dev/null
	mkdir -m 777 open
	cat "$B/bin/lx-attach" >open/lx-attach && chmod 755 open/lx-attach
	cat "$B/bin/lx-batch" >open/lx-batch && chmod 755 open/lx-batch
	cp in.lx open && chmod 644 open/in.lx
	cd open || return
	# Root may open any socket: the uid is what refuses it.
	bg setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'exec ./lx-batch --listen unix:s <in.lx' >../out.lx 2>../err
	wait_for 10 test -S s
	lx-attach unix:s -- "$W" 2>../refused || got=$?
	[[ $got == 2 ]] || fail "exit $got: $(<../refused)"
	grep -q 'not for uid 0' ../refused
	wait_for 10 grep -q 'uid 0 has connected: refused' ../err
	# And others cannot even connect.
	bg sh -c 'exec lx-batch --listen unix:mine <in.lx' >../out2.lx 2>../err2
	wait_for 10 test -S mine
	got=0
	setpriv --reuid=65534 --regid=65534 --clear-groups ./lx-attach unix:mine -- true 2>../refused || got=$?
	[[ $got == 5 ]] || fail "exit $got: $(<../refused)"
	grep -qi 'permission denied' ../refused
}

@test "lx-batch: --listen takes over a stale socket, not a live one, nor anything else" {
	batch
	kill -KILL "$BATCH"
	wait_for 10 gone "$BATCH"
	[[ -S s && -e s.lock ]]
	exits 5 lx-attach unix:s -- "$W"
	says 'nobody listens'
	batch # the old socket is still there: it listens when the lock names it
	local live=$BATCH
	wait_for 10 grep -qw "$live" s.lock
	exits 2 lx-batch --listen unix:s <in.lx
	says --listen "process id $live listens"
	[[ -S s ]]
	attach unix:s -- "$W"
	ended "$live"
	same_stream in.lx out.lx
	nothing_stays
	echo mine >s
	exits 2 lx-batch --listen unix:s <in.lx
	says 'no socket'
	[[ $(<s) == mine ]]
	rm s
	bg "$PY" -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind("s"); s.listen(1); time.sleep(600)'
	wait_for 10 test -S s
	listens() { "$PY" -c 'import socket; socket.socket(socket.AF_UNIX).connect("s")' 2>/dev/null; }
	wait_for 10 listens
	exits 2 lx-batch --listen unix:s <in.lx
	says 'another program listens'
}

@test "lx-batch: --listen: what is no path of a socket is refused" {
	local long
	long=$(printf 'x%.0s' {1..200})
	exits 2 lx-batch --listen "unix:$long" <in.lx
	says '200 bytes' 107
	exits 2 lx-attach "unix:$long" -- "$W"
	says '200 bytes' 107
	exits 2 lx-batch --listen localhost:99 <in.lx
	says unix:PATH ssh
	exits 2 lx-attach unix:s
	says WORKER
	exits 5 lx-batch --listen unix:no/such/s <in.lx
}

@test "lx-batch: --listen: socket and lock are gone after a signal" {
	batch
	kill -TERM "$BATCH"
	ended "$BATCH" 143
	nothing_stays
	lx-batch --listen unix:s <in.lx >/dev/full 2>err 3>&- &
	BG+=($!)
	wait_for 10 test -S s
	lx-attach unix:s -- "$W" 2>/dev/null || true
	wait_for 10 gone $!
	nothing_stays
}

@test "lx-batch: --listen: strangers that say nothing, or rubbish, cost nobody anything" {
	batch
	cat >rubbish.py <<'END'
import os, socket, time
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect("s")
    return s
silent = [connect() for _ in range(40)]
for rubbish in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 5000, b"x" * 300, b"lx-attach 9 h p\n", b"lx-attach 1 h p"):
    s = connect()
    s.sendall(rubbish)
    silent.append(s)
s = connect()  # lets itself in, and then writes what is no stream
s.sendall(b"lx-attach 1 h rubbish\n")
s.sendall(b"this is no stream" * 100)
silent.append(s)
s = connect()  # lets itself in, and is silent
s.sendall(b"lx-attach 1 h silent\n")
silent.append(s)
open("connected", "w").close()
time.sleep(600)
END
	bg "$PY" rubbish.py
	wait_for 10 test -e connected
	attach unix:s -- "$W"
	ended "$BATCH"
	ended "$PID"
	same_stream in.lx out.lx
	grep -q 'no lx-attach of this version: refused' batch.err
	grep -q 'rubbish.*not an lx stream\|rubbish.*no stream' batch.err || fail "$(<batch.err)"
}

@test "lx-batch: --listen: who says nothing is not waited for" {
	batch
	"$PY" -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("s"); s.settimeout(30); raise SystemExit(s.recv(9) != b"")'
	grep -q 'says nothing: refused' batch.err
	kill -TERM "$BATCH"
	ended "$BATCH" 143
}

@test "lx-batch: --join-timeout: without a worker it gives up, when none came and when all have left" {
	exits 6 lx-batch --listen unix:s --join-timeout 0.2 <in.lx
	says 'no worker has joined'
	mv out out.lx
	exits 6 lx-cat out.lx
	nothing_stays
	batch --join-timeout 1
	attach unix:s -- "$W" -s 50000
	wait_for 10 answered 4
	kill -KILL "$PID"
	ended "$BATCH" 6
	nothing_stays
}

@test "lx-batch: --listen: a worker in rags is slow only itself" {
	batch --start-timeout 0.3
	bg "$PY" -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.connect("s"); s.sendall(b"lx-attach 1 h slow\n"); s.recv(999); open("in", "w").close(); time.sleep(600)'
	wait_for 10 grep -q 'slow.*was not ready in time' batch.err
	attach unix:s -- "$W"
	ended "$BATCH"
	same_stream in.lx out.lx
}

@test "lx-batch: --listen: what a worker can do at once it gets" {
	batch --depth 1
	attach unix:s -- "$W" -n 8 -s 20000
	wait_for 10 joined 1
	ended "$BATCH"
	same_stream in.lx out.lx
}

@test "lx-attach: an lx-batch joins: a tree of two levels, and kill -9 at either changes nothing" {
	local victim
	for victim in top leaf; do
		rm -f out.lx batch.err attach.err
		batch -v
		attach -q unix:s -- lx-batch -q -n 2 -j 2 -- "$W" -s 4000
		local a=$PID
		attach -q unix:s -- lx-batch -q -n 2 -j 2 -- "$W" -s 4000
		wait_for 10 answered 8
		if [[ $victim == top ]]; then
			pkill -KILL -P "$a"
		else
			pkill -KILL -P "$(pgrep -P "$a" | head -1)"
		fi
		ended "$BATCH"
		ended "$a"
		ended "$PID"
		same_stream in.lx out.lx
	done
}

@test "lx-attach: in a tree, siblings of a failure are withdrawn below, and the verdicts are those without" {
	{
		row='"fail-parent"'
		for i in {1..300}; do row+=',"p"'; done
		for i in {1..6}; do printf '{"data":[%s]}\n{"data":["p","p"]}\n' "$row"; done
	} | lx-in --run d --jsonl -d doc | lx-expand -d page -i data >d.lx
	lx-batch -n 8 -- "$W" <d.lx >flat.lx
	IN=d.lx batch -n 64 --order fifo --depth 8
	attach unix:s -- lx-batch -n 1 --order fifo --stats low.json -- "$W" -s 2000
	ended "$BATCH"
	ended "$PID"
	failed() { lx-cat --canonical "$1" | jq -c 'select(.[0] == 2 and .[3] == 2) | .[1:4]'; }
	present() { lx-cat --canonical "$1" | jq -c 'select(.[0] == 1 and .[2][0] % 2 == 1) | .[1:3]'; }
	diff <(failed flat.lx) <(failed out.lx)
	diff <(present flat.lx) <(present out.lx)
	[[ $(lx-cat --canonical out.lx | wc -l) == $(lx-cat --canonical d.lx | wc -l) ]]
	run jq -s 'map(.doomed.never_sent) | add > 0' low.json
	assert_output true
}

@test "lx-attach: 64 workers come and go at random while 5,000 records come out once each" {
	seq 5000 | lx-in --run many --lines -d doc >many.lx
	IN=many.lx batch -q --stats s.json
	cat >come-and-go <<-'END'
		RANDOM=$1
		while [[ -S s ]]; do
			lx-attach -q --for 0.$((RANDOM % 9 + 1)) unix:s -- "$W" -s 3000 2>/dev/null &
			pid=$!
			((RANDOM % 3)) || { read -rt 0.$((RANDOM % 9)) <>wait; kill -KILL $pid; }
			wait $pid
		done
	END
	mkfifo wait
	export W
	local i n=64 workers=()
	! sanitized || n=8
	for ((i = 0; i < n; i++)); do
		bg bash come-and-go $i
		workers+=("$PID")
	done 2>/dev/null
	wait_for 300 gone "$BATCH"
	wait "$BATCH" || fail "$(<batch.err)"
	for i in "${workers[@]}"; do wait_for 60 gone "$i"; done
	same_stream many.lx out.lx
	run jq '.crashed' s.json
	assert_output 0
}

@test "lx-attach: from another machine, through ssh -R" {
	hosts_up far
	batch
	hub ssh -o ExitOnForwardFailure=yes -R "$NET/far/tmp/s:$PWD/s" far \
		lx-attach "unix:$NET/far/tmp/s" -- "$W" -s 2000 </dev/null 2>>attach.err 3>&- &
	BG+=($!)
	local a=$!
	wait_for 30 answered 8
	# the way is cut: its work waits for another
	pkill -KILL -P "$(sshd_pid far)"
	wait_for 30 grep -q 'the connection has ended' batch.err
	attach unix:s -- "$W"
	ended "$BATCH"
	wait_for 30 gone "$a"
	same_stream in.lx out.lx
}
