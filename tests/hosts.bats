# lx-batch --hosts on real machines: see hosts.bash.
load lib
load hosts

setup_file() { hosts_up a b c d; }
teardown_file() { hosts_down; }

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	NET=$BATS_FILE_TMPDIR/net
	read -r SPACES <"$NET/spaces" || SPACES=
	printf '2/%s\n' a b c d >hosts
}

# pages COUNT: a stream of COUNT docs of 1 to 7 pages, of bytes that mean something to somebody: frames, lines, NULs. The
# page "bad" of every tenth doc is one that the work below refuses.
pages() {
	mkdir -p docs
	"$PY" - "$1" <<'EOF'
import random, sys
r = random.Random(7)
odd = [b'\x28\xb5\x2f\xfd', b'\x50\x2a\x4d\x18', b'\n\n', b'\0', b'\xff\xfe', b'text', b'']
for i in range(int(sys.argv[1])):
    page = lambda: b''.join(r.choice(odd) for _ in range(9)) + r.randbytes(r.choice([0, 10, 3000])) + b'x' * r.choice([0, 5000])
    n = 1 + i * 5 % 7
    pages = [b'bad' if i % 10 == 3 and k == n - 1 else page().replace(b'=+=', b'') for k in range(n)]
    open('docs/%03d' % i, 'wb').write(b'=+='.join(pages))
EOF
	find docs -type f | sort | lx-in --run h -d doc | lx-expand -d page -s 'delim:=+=' -- cat {path}
}
# What is done to a page; it takes $1 seconds.
work() { printf '%s\0' lx-map -o data:bin -- sh -c 'sleep "$1"; tee "$LX_DIR/page" >/dev/null; ! grep -qx bad "$LX_DIR/page" || exit 9; sha256sum <"$LX_DIR/page"; cat "$LX_DIR/page"' "a b'c\"d!" "$1" {dir}; }

@test "hosts: a clean run is the local run, byte for byte after gather" {
	pages 40 >in.lx
	local -a w
	readarray -d '' w < <(work 0)
	"${w[@]}" <in.lx | lx-gather -d page -f data | lx-out --max-failed 100% --ordered >local.json 2>local.err
	hub lx-batch --hosts hosts -n 5 --stats s.json -- "${w[@]}" <in.lx 2>err >out.lx
	lx-gather -d page -f data <out.lx | lx-out --max-failed 100% --ordered >far.json 2>far.err
	cmp local.json far.json
	# the summary names the first failure of a type that came, and they come in any order
	diff <(sed 's/^\(lx-out: [0-9]* [a-z-]*\):.*/\1/' local.err | sort) <(sed 's/^\(lx-out: [0-9]* [a-z-]*\):.*/\1/' far.err | sort)
	[[ $(wc -l <far.json) -ge 30 && ! -s err ]]
	# a host that is slow to start may find nothing left to do
	run jq -c '[.workers[].losses]' s.json
	assert_output '[0,0,0,0]'
}
