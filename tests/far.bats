# A long way to the hosts: the relay that makes it (tests/tool/relay.c), and lx-batch --hosts across it.
load lib
load hosts

setup_file() { hosts_up a b c d; }
teardown_file() { hosts_down; }

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	NET=$BATS_FILE_TMPDIR/net
	read -r SPACES <"$NET/spaces" || SPACES=
	RELAY=$B/tool/relay
}

# A server on loopback whose port is written to ./port. What it does with its one connection `s` is Python, in $1.
server() {
	bg "$PY" -c "
import os, socket, sys, time
l = socket.create_server(('127.0.0.1', 0))
open('port.new', 'w').write(str(l.getsockname()[1]))
os.rename('port.new', 'port')
s, _ = l.accept()
$1"
	wait_for 20 test -s port
}

@test "relay: bytes come whole and in order, both ways, as much as there is, and an end closes one direction" {
	head -c 3000000 /dev/urandom >in
	# the server answers only when its input has ended, and more than any buffer holds
	server "
data = b''
while (got := s.recv(65536)): data += got
s.sendall(data * 5)"
	timeout 60 "$RELAY" -c counts 5 127.0.0.1 "$(<port)" <in >out
	for i in 1 2 3 4 5; do cat in; done | cmp - out
	read -r there back <counts
	[[ $there == 3000000 && $back == 15000000 ]]
}

@test "relay: nothing comes before its time, in either direction, and neither does the end" {
	server "
while (got := s.recv(65536)): s.sendall(got)
open('closed', 'w').write(str(time.monotonic()))"
	"$PY" - "$RELAY" "$(<port)" <<'EOP'
import subprocess, sys, time
p = subprocess.Popen([sys.argv[1], '150', '127.0.0.1', sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
for i in range(3):
    sent = time.monotonic()
    p.stdin.write(b'x')
    assert p.stdout.read(1) == b'x'
    took = time.monotonic() - sent
    assert took >= 0.3, took
closing = time.monotonic()
p.stdin.close()
assert p.stdout.read() == b''
took = time.monotonic() - closing
assert took >= 0.3, took
assert p.wait() == 0
assert float(open('closed').read()) - closing >= 0.15
EOP
}

@test "relay: what is under way waits for nothing before it, up to its bound" {
	server "
s.recv(1)
open('arrived', 'w')"
	# an hour away: the writer gets rid of what one direction holds, and of no more than that and two pipes
	mkfifo in
	bg sh -c 'exec "$0" -b 4000000 3600000 127.0.0.1 "$1" <in >out' "$RELAY" "$(<port)"
	bg "$PY" -c "
import os
fd, n = os.open('in', os.O_WRONLY), 0
while True:
    n += os.write(fd, bytes(10000))
    open('written.new', 'w').write(str(n))
    os.rename('written.new', 'written')"
	written() { [[ -s written ]] && (($(<written) >= 4000000)); }
	wait_for 60 written
	(($(<written) < 4000000 + 2 * 65536 + 10000))
	[[ ! -e arrived ]]
}

@test "relay: what a server says last arrives when it has gone, and a refusal is one line" {
	server "s.sendall(b'last words'); os._exit(0)"
	mkfifo in
	exec 9<>in # an input that does not end
	timeout 60 "$RELAY" 50 127.0.0.1 "$(<port)" <&9 >out 3>&- 9<&- &
	BG+=("$!")
	wait_for 20 grep -qx 'last words' out
	exec 9<&-
	exits 1 "$RELAY" 5 127.0.0.1 1
	says 'relay: 127.0.0.1: Connection refused'
}

# 60 documents of 1 to 9 pages of any bytes; the last page of every tenth is refused by the work.
pages() {
	"$PY" -c "
import random, sys
r = random.Random(11)
for i in range(60):
    pages = [r.randbytes(r.choice([0, 20, 9000])).replace(b'\0', b'') for _ in range(1 + i * 7 % 9)]
    sys.stdout.buffer.write(b'=+='.join(pages + [b'bad'] * (i % 10 == 4)) + b'\0')" |
		lx-in -0 --lines --run far -d doc | lx-expand -d page -s 'delim:=+='
}
work() { printf '%s\0' lx-map -o data:bin -- sh -c 'tee "$1/page" >/dev/null; [ "$(cat "$1/page")" != bad ] && sha256sum <"$1/page" && cat "$1/page"' _ {dir}; }
texts() { lx-gather -d page -f data | lx-out -q --ordered --max-failed 100%; }

@test "hosts: across 50 ms of added round trip the result is that of a local run, byte for byte" {
	local name
	local -a w
	pages >in.lx
	readarray -d '' w < <(work)
	"${w[@]}" <in.lx | texts >local.json
	for name in a b c d; do
		echo "2/ssh -oProxyCommand='$RELAY -c $PWD/count.$name 25 %h %p' $name" >>hosts
	done
	hub lx-batch --hosts hosts -n 5 --stats s.json -- "${w[@]}" <in.lx 2>err >out.lx
	[[ ! -s err ]] || fail "$(<err)"
	texts <out.lx >far.json
	cmp local.json far.json
	[[ $(wc -l <far.json) == 54 ]]
	run jq -c '[.workers[].losses]' s.json
	assert_output '[0,0,0,0]'
	# all of it went that way
	awk '$1 > 1000 && $2 > 1000 { n++; back += $2 } END { exit !(n == 4 && back > 500000) }' count.?
}
