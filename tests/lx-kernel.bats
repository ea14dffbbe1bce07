# Kernels and plugins of the user's (lx-kernel(5)), on the CPU device and as NVRTC takes them.
load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export XDG_CACHE_HOME=$PWD/cache
	printf 'P2\n3 2\n255\n0 128 255\n255 128 0\n' >a.pgm
	printf 'P2\n2 2\n255\n9 9 9 9\n' >b.pgm
	printf '%s\n' a.pgm b.pgm | lx-in --run r --read -d doc >in.lx
	cat >text.cu <<'END_OF_KERNEL'
#include <lx/kernel.h>

/* Reads LX_BYTES; each kind of result, once. */
LX_PHASE(clear)
{
	LX_FOR(i, 256)
		LX_OUT(uint64_t)[i] = 0;
}
LX_PHASE(letters)
{
	LX_FOR(i, k->len)
		LX_ADD(&k->out[k->in[i]], 1);
}
LX_PHASE(less)
{
	LX_ONCE
		LX_OUT(int64_t)[0] = (int64_t)k->args[0] - (int64_t)k->len - (int64_t)k->args[3];
}
LX_PHASE(halves)
{
	LX_ONCE {
		LX_OUT(double)[0] = (double)k->len / 2;
		LX_OUT(double)[1] = -0.25;
	}
}
LX_PHASE(first)
{
	LX_FOR(i, 5)
		LX_OUT(uint8_t)[i] = i < k->len ? k->in[i] : 0;
}
LX_PHASE(reversed)
{
	LX_FOR(i, k->len < 64 ? k->len : 64)
		k->work[k->len - 1 - i] = k->in[i];
}
LX_PHASE(ranked)
{
	LX_ONCE {
		if (k->len == 0)
			LX_REFUSE(1);
		else if (k->in[0] == 'b')
			LX_REFUSE(2);
		else if (k->in[0] == 'd')
			LX_REFUSE(3);
		else if (k->in[0] == 'x')
			LX_REFUSE(4);
		else
			k->out[0] = k->work[0];
	}
}
LX_KERNEL(histogram, LX_BYTES, "uint[256]", "", 0, clear, letters)
LX_KERNEL(below, LX_BYTES, "int", "", 0, less)
LX_KERNEL(half, LX_BYTES, "float[2]", "", 0, halves)
LX_KERNEL(start, LX_BYTES, "bytes[5]", "", 0, first)
LX_KERNEL(last, LX_BYTES, "uint", "no-text record, half-bad parent, all-bad doc", 64, reversed, ranked)
LX_PLUGIN(histogram, below, half, start, last)
END_OF_KERNEL
}

# A cc in front of the others that counts its calls.
counted() {
	local cc
	cc=$(command -v "${CC:-cc}")
	unset CC
	mkdir -p bin
	printf '#!/bin/sh\necho once >>"%s/calls"\nexec "%s" "$@"\n' "$PWD" "$cc" >bin/cc
	chmod +x bin/cc
	PATH=$PWD/bin:$PATH
	: >calls
}
calls() { wc -l <calls; }

# A plugin of text.cu, made as lx-kernel(5) says.
plugin() {
	${CC:-cc} -x c -O3 -shared -fPIC -I"$B/include" "$@"
}

@test "lx-kernel: the example counts dark pixels" {
	lx-gpu -q --device cpu --kernel "$ROOT/examples/my-kernel.cu" dark:129 ink:129 <in.lx | lx-out -q --failures bad --max-failed 1 >out
	[[ $(jq -c '[.path, .dark, .ink * 6]' out) == '["a.pgm",4,4]' ]] || fail "$(<out)"
	[[ $(jq -c '[.path, .lx.cause.type, .lx.cause.message]' bad) == '["b.pgm","all-dark","refused by dark"]' ]] || fail "$(<bad)"
	lx-gpu -q --device cpu --kernel "$ROOT/examples/my-kernel.cu" -o n dark <in.lx | lx-out -q >out
	[[ $(jq -c '[.n]' out) == $'[0]\n[0]' ]] || fail "$(<out)"
}

@test "lx-kernel: text, arrays, bytes, negative numbers, arguments" {
	"$PY" -c 'import json, random
r = random.Random(3)
for i in range(200): print(json.dumps({"data": "".join(chr(r.randrange(97, 400)) for _ in range(r.randrange(0, 60)))}))' >texts
	lx-in --jsonl -d text <texts | lx-batch -n 9 |
		lx-gpu -q --device cpu -j 3 --kernel text.cu histogram below:30:1:1:5 half start | lx-out -q >out
	"$PY" - <<'END_OF_CHECK'
import base64, collections, json
n = 0
for line in open('out'):
    d = json.loads(line)
    b = d['data'].encode()
    c = collections.Counter(b)
    assert d['histogram'] == [c[i] for i in range(256)]
    assert d['below'] == 30 - len(b) - 5
    assert d['half'] == [len(b) / 2, -0.25]
    s = d['start']
    s = base64.b64decode(s['$bin'] if isinstance(s, dict) else s)
    assert s == b[:5].ljust(5, b'\0'), s
    n += 1
assert n == 200
END_OF_CHECK
}

@test "lx-kernel: a refusal fails the record, its parent, or a domain above, as declared" {
	printf '%s\n' 'a1 c1' 'a2 b2 c2' 'a3 d3' '' | lx-in --run r --lines -d doc |
		lx-expand -d word -s delim:' ' >words.lx
	lx-gpu -q --device cpu --kernel text.cu -i data last <words.lx >out.lx
	lx-gather <out.lx | lx-out -q --failures bad --max-failed 100% >out
	[[ $(jq -c '.word | select(length > 0) | map(.last)' out) == '[49,49]' ]] || fail "$(<out) $(<bad)"
	[[ $(jq -r '[.lx.cause.type, .lx.cause.message] | join(" ")' bad | sort | grep -c 'refused by last') -ge 2 ]] || fail "$(<bad)"
	jq -r .lx.cause.type bad | grep -qx half-bad
	jq -r .lx.cause.type bad | grep -qx all-bad
	sed -i s/half-bad.parent/half-bad\ chapter/ text.cu
	exits 2 lx-gpu -q --device cpu --kernel text.cu last <words.lx
	says 'chapter' 'neither record, parent'
	printf 'xx\n' | lx-in --run r --lines -d doc >x.lx
	sed -i s/half-bad.chapter/half-bad\ record/ text.cu
	exits 6 lx-gpu -q --device cpu --kernel text.cu last <x.lx
	says 'LX_REFUSE(4)'
}

@test "lx-kernel: --list shows what a file has; FILE:NAME is one of it" {
	lx-gpu --kernel text.cu --kernel "$ROOT/examples/my-kernel.cu" --list >out
	grep -q '^op	start.*bytes to bytes\[5\]; ./text.cu' out
	grep -q '^op	dark.*images to uint' out
	lx-gpu --kernel text.cu:half --list >out
	grep -q '^op	half' out
	[[ $(grep -c text.cu out) == 1 ]]
	exits 2 lx-gpu --kernel text.cu:nothing half <in.lx
	says "no kernel 'nothing'"
	cp text.cu odd:name.cu
	lx-gpu --kernel odd:name.cu --list | grep -q '^op	half'
	exits 2 lx-gpu --kernel text.cu --kernel odd:name.cu --list
	says 'there is an op histogram already (./text.cu)'
	exits 2 lx-gpu --kernel text.cu below:1:2:3:4:5 <in.lx
	says 'over 4 arguments'
	exits 2 lx-gpu --kernel text.cu below:x <in.lx
	says "'x' is not a whole number"
	exits 2 lx-gpu --kernel none.cu ink <in.lx
	says none.cu 'No such file'
	sed s/histogram/dhash/g text.cu >clash.cu
	exits 2 lx-gpu --kernel clash.cu ink <in.lx
	says 'there is an op dhash already'
}

@test "lx-kernel: a kernel whose work cannot be is refused at start, and one for which there is no memory is said" {
	local n
	for n in 1000000000000000 -1 1073741825; do
		sed "s/64, reversed/$n, reversed/" text.cu >much.cu
		exits 2 lx-gpu --device cpu --kernel much.cu half <in.lx
		says '--kernel much.cu: kernel last: its work of' 'is over 1073741824'
	done
	sed 's/64, reversed/1073741824, reversed/' text.cu >much.cu
	lx-gpu -q --device cpu -j 1 --kernel much.cu last <in.lx | lx-out -q >out
	lx-gpu -q --device cpu -j 1 --device-mem 500M --kernel much.cu last <in.lx | lx-out -q --failures bad --max-failed 2
	[[ $(jq -r .lx.cause.type bad) == $'oversize\noversize' ]] || fail "$(<bad)"
	! sanitized || return 0
	ulimit -v 1000000
	exits 5 lx-gpu -q --device cpu -j 1 --kernel much.cu last <in.lx
	says 'no memory: an item needs 10737' -j --device-mem
}

@test "lx-kernel: a kernel may say where it refuses" {
	cat >where.cu <<'END_OF_KERNEL'
#include <lx/kernel.h>
LX_PHASE(look)
{
	LX_ONCE {
		k->out[0] = 7;
		for (uint64_t i = 0; i < k->len; i++)
			if (k->in[i] == '!')
				LX_REFUSE_AT(2, i);
	}
}
LX_KERNEL(calm, LX_BYTES, "uint", "other record, loud parent", 0, look)
LX_PLUGIN(calm)
END_OF_KERNEL
	printf 'calm\nnot calm!\n' | lx-in --run r --lines -d doc >t.lx
	lx-gpu -q --device cpu --kernel where.cu calm <t.lx | lx-out -q --failures bad --max-failed 1 >out
	[[ $(jq .calm out) == 7 ]]
	[[ $(jq -r '"\(.lx.cause.type) \(.lx.cause.message)"' bad) == 'loud refused by calm at 8' ]] || fail "$(<bad)"
	has_cuda || return 0
	plugin -o where.so where.cu
	lx-gpu -q --device cpu --kernel where.cu calm <t.lx >cpu.lx
	FAKE_CUDA_PLUGIN=$PWD/where.so LD_LIBRARY_PATH=$FAKE lx-gpu -q --device cuda --kernel where.cu calm <t.lx >cuda.lx
	same_stream cpu.lx cuda.lx
}

@test "lx-kernel: a file that is none, or no text, is refused before a compiler sees it" {
	counted
	exits 2 lx-gpu --device cpu --kernel <(cat text.cu) half <in.lx
	says 'not a regular file'
	exits 2 lx-gpu --device cpu --plugin <(cat text.cu) half <in.lx
	says 'not a regular file'
	mkfifo fifo
	exits 2 timeout 20 lx-gpu --device cpu --kernel fifo half <in.lx
	says '--kernel fifo: not a regular file'
	exits 2 lx-gpu --device cpu --kernel . half <in.lx
	says 'not a regular file'
	exits 2 lx-gpu --device cpu --kernel in.lx half <in.lx
	says '--kernel in.lx: no source: byte' 'is NUL'
	[[ $(calls) == 0 ]]
	# text, but no source: not a screen full
	seq 3000 | sed 's/.*/@ & = ;/' >lines.cu
	exits 2 lx-gpu --device cpu --kernel lines.cu half <in.lx
	(($(wc -l <err) < 150)) || fail "$(wc -l <err) lines"
	grep -q 'it does not compile' err
}

@test "lx-kernel: what does not compile shows the line, and exits 2" {
	sed 's/k->args\[0\])$/k->argz[0])/' "$ROOT/examples/my-kernel.cu" >wrong.cu
	exits 2 lx-gpu --device cpu --kernel wrong.cu dark <in.lx
	grep -qE 'wrong\.cu:13:[0-9]+: error:.*argz' err || fail "$(<err)"
	grep -q '^lx-gpu: --kernel wrong.cu: it does not compile' err || fail "$(<err)"
	exits 3 lx-cat out # nothing of it is in the stream, which says it was given up
	exits 2 env CC=no-such-cc lx-gpu --device cpu --kernel text.cu half <in.lx
	says 'no C compiler' no-such-cc CC
	[[ $(find cache -type f | wc -l) == 0 ]] || fail "$(find cache)"
}

@test "lx-kernel: what was compiled is kept, by content, and checked" {
	counted
	half() { lx-gpu -q --device cpu --kernel "${1-text.cu}" half <in.lx | lx-out -q >out && [[ $(jq -c .half[1] out) == $'-0.25\n-0.25' ]]; }
	half && half
	[[ $(calls) == 1 ]] || fail "$(calls)"
	cp text.cu same.cu
	half same.cu
	[[ $(calls) == 1 ]]
	[[ $(stat -c %a cache/lx) == 700 && $(ls -A cache/lx | wc -l) == 1 ]] || fail "$(ls -la cache/lx)"
	local kept size
	kept=$(echo cache/lx/*.so)
	size=$(stat -c %s "$kept")
	for damage in "truncate -s $((size / 2))" 'truncate -s 0' 'truncate -s +1' 'chmod 666'; do
		: >calls
		$damage "$kept"
		half
		[[ $(calls) == 1 ]] || fail "$damage: $(calls)"
		half
		[[ $(calls) == 1 ]] || fail "$damage: not mended"
	done
	printf X | dd of="$kept" bs=1 seek=$((size / 2)) conv=notrunc status=none
	: >calls
	half && [[ $(calls) == 1 ]]
	echo '/* changed */' >>same.cu
	half same.cu && [[ $(calls) == 2 ]]
	# another compiler
	touch -d 2001-01-01 bin/cc
	half && [[ $(calls) == 3 ]]
}

@test "lx-kernel: what is compiled is what was read, and kept as that, whatever the file is meanwhile" {
	# a compiler has another /dev/stdin than its caller
	lx-gpu -q --device cpu --from in.lx --kernel /dev/stdin half <text.cu >stdin.lx
	counted
	lx-gpu -q --device cpu --kernel text.cu half <in.lx >text.lx
	same_stream stdin.lx text.lx
	# and somebody edits the file once it was read
	cp text.cu edited.cu
	sed -i '2i sed -i "s/-0.25/-0.75/" edited.cu' bin/cc
	rm -r cache
	lx-gpu -q --device cpu --kernel edited.cu half <in.lx >old.lx
	same_stream text.lx old.lx
	lx-gpu -q --device cpu --kernel edited.cu half <in.lx | lx-out -q >out
	[[ $(jq -c .half[1] out) == $'-0.75\n-0.75' && $(calls) == 3 ]] || fail "$(calls): $(<out)"
	lx-gpu -q --device cpu --kernel text.cu half <in.lx >old.lx
	same_stream text.lx old.lx
	# files beside it are found, and its own name is in what the compiler says
	mkdir -p 'a "b\c'
	printf '#include "more.h"\n#error "wrong"\n' >'a "b\c/with.cu'
	printf '#define MORE\n' >'a "b\c/more.h'
	exits 2 lx-gpu -q --device cpu --kernel 'a "b\c/with.cu' half <in.lx
	grep -qF 'a "b\c/with.cu:2:2: error' err || fail "$(<err)"
}

@test "lx-kernel: nothing is kept of a file that includes others, or where the folder is not ours alone" {
	counted
	printf '#include "more.h"\n' >with.cu
	cat text.cu >>with.cu
	: >more.h
	lx-gpu -q --device cpu --kernel with.cu half <in.lx >out
	echo '#error changed' >more.h
	exits 2 lx-gpu --device cpu --kernel with.cu half <in.lx
	grep -q 'more.h:1' err
	[[ $(calls) == 2 && $(ls -A cache/lx) == '' ]] || fail "$(ls -A cache/lx)"
	chmod 777 cache/lx
	: >calls
	lx-gpu -q --device cpu --kernel text.cu half <in.lx >out
	lx-gpu -q --device cpu --kernel text.cu half <in.lx >out
	[[ $(calls) == 2 && $(ls -A cache/lx) == '' ]]
	: >file
	XDG_CACHE_HOME=$PWD/file lx-gpu -q --device cpu --kernel text.cu half <in.lx >out
	mkdir tmp
	TMPDIR=$PWD/tmp XDG_CACHE_HOME=/proc/nowhere lx-gpu -q --device cpu --kernel text.cu half <in.lx >out
	[[ $(ls -A tmp) == '' ]]
}

@test "lx-kernel: a signal ends the compiler, too, and nothing is left" {
	mkdir bin
	printf '#!/bin/sh\necho $$ >"%s/started"\nexec sleep 600\n' "$PWD" >bin/slow
	chmod +x bin/slow
	CC=$PWD/bin/slow bg lx-gpu -q --device cpu --kernel text.cu half <in.lx >out
	wait_for 30 test -s started
	kill -TERM "$PID"
	wait_for 30 gone "$PID"
	wait_for 30 gone "$(<started)"
	[[ $(ls -A cache/lx) == '' ]] || fail "$(ls -A cache/lx)"
}

@test "lx-kernel: starts at the same time do not disturb each other" {
	local i pids=()
	for i in 1 2 3 4; do
		lx-gpu -q --device cpu --kernel text.cu half <in.lx >"out$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	for i in 2 3 4; do same_stream out1 "out$i"; done
	[[ $(ls -A cache/lx | wc -l) == 1 ]] || fail "$(ls -A cache/lx)"
}

@test "lx-kernel: a plugin gives what its source gives" {
	plugin -o text.so text.cu
	lx-gpu -q --device cpu --plugin text.so half start <in.lx >a.lx
	lx-gpu -q --device cpu --kernel text.cu half start <in.lx >b.lx
	same_stream a.lx b.lx
	exits 2 lx-gpu --device cpu --plugin text.so halve <in.lx
	says "no op 'halve'"
}

@test "lx-kernel: a plugin cut off anywhere is refused, before it is loaded" {
	plugin -s -o text.so text.cu
	local size i step=23
	! sanitized || step=499
	size=$(stat -c %s text.so)
	for ((i = 0; i < size; i = i < 130 || i > size - 10 ? i + 1 : i + size / step)); do
		head -c "$i" text.so >cut.so
		exits 2 lx-gpu --device cpu --plugin cut.so half <in.lx
		says '--plugin cut.so: ' || fail "cut after $i bytes"
	done
	lx-gpu -q --plugin text.so --list | grep -q '^op	half'
}

@test "lx-kernel: a plugin that is not right says why" {
	refused() { # WHY SED-SCRIPT
		sed "$2" text.cu >wrong.cu
		plugin -w -o wrong.so wrong.cu
		exits 2 lx-gpu --device cpu --plugin wrong.so half <in.lx
		says "$1"
	}
	refused 'no symbol lx_plugin' '/^LX_PLUGIN/d'
	refused 'no symbol lx_plugin' 's/^LX_PLUGIN.*/static int nothing;/'
	refused 'not what LX_PLUGIN' 's/^LX_PLUGIN.*/char lx_plugin;/'
	refused 'not what LX_PLUGIN' 's/^LX_PLUGIN.*/void lx_plugin(void) { }/'
	refused 'version 7 of kernels, this lx-gpu has 1' '2i #undef LX_KERNEL_ABI\n#define LX_KERNEL_ABI 7'
	refused 'of 1 to 64 kernels' 's/^LX_PLUGIN.*/extern const struct lx_plugin lx_plugin; const struct lx_plugin lx_plugin = { 1, 0, 0, 0, 0 };/'
	refused 'a kernel of its list is missing' 's/^LX_PLUGIN(.*/LX_PLUGIN(0)/'
	refused 'at most 31 letters' 's/half/a_name_that_is_far_too_long_for_it/'
	refused "its result 'words'" 's/"int"/"words"/'
	refused "its result 'bytes'" 's/"bytes\[5\]"/"bytes"/'
	refused "its result 'uint[0]'" 's/"uint\[256\]"/"uint[0]"/'
	refused "its result 'uint[99999999]'" 's/"uint\[256\]"/"uint[99999999]"/'
	refused 'failures' 's/no-text record/no-text/'
	refused 'failures' 's/no-text record/no-text record twice/'
	refused 'kernel below has more than 6 phases' 's/0, less)/0, less, less, less, less, less, less, less)/'
	refused "kernel last: its failures 'no-text record, xxxxxxxxxxxxxxxx...' are over 191 characters" "s/half-bad parent/$(printf 'x%.0s' {1..200}) parent/"
	refused 'kernel last: its work of 1000000000000000 bytes an item is over 1073741824' 's/64, reversed/1000000000000000, reversed/'
	refused 'kernel last: its work of 1073741825 bytes' 's/64, reversed/1073741825, reversed/'
	refused 'kernel last: its work of 18446744073709551615 bytes' 's/64, reversed/-1, reversed/'
	refused 'no phase' 's/0, less)/0, 0)/'
	refused 'none of LX_IMAGE, LX_BYTES and LX_TEXT' 's/below, LX_BYTES/below, 9/'
	exits 2 lx-gpu --device cpu --plugin text.cu half <in.lx
	says 'not a shared object' '(--kernel takes sources)'
	plugin -o text.so text.cu
	# where the header has the kind of file, the order of bytes, the machine
	for byte in 5:2 18:0 18:255; do
		cp text.so other.so
		printf "\\x$(printf %x "${byte#*:}")" | dd of=other.so bs=1 seek="${byte%:*}" conv=notrunc status=none
		exits 2 lx-gpu --device cpu --plugin other.so half <in.lx
		says '--plugin other.so: made for another kind of machine'
	done
	${CC:-cc} -x c -c -fPIC -I"$B/include" -o text.o text.cu
	exits 2 lx-gpu --device cpu --plugin text.o half <in.lx
	says '--plugin text.o: not a shared object: compile it with -shared'
	exits 2 lx-gpu --device cpu --plugin none.so half <in.lx
	says 'No such file'
	echo 'int missing(void); int f(void) { return missing(); }' >u.c
	${CC:-cc} -shared -fPIC -o u.so u.c
	exits 2 lx-gpu --device cpu --plugin u.so half <in.lx
	says missing
}

# lx-gpu with a driver that is none (tests/fake/cuda.c): it runs the kernels of the plugin $1 in place of what it is given.
fake() {
	local plugin=$1
	shift
	LD_LIBRARY_PATH=$FAKE FAKE_CUDA_PLUGIN=$plugin lx-gpu -q --device cuda "$@"
}
has_cuda() {
	FAKE=$(realpath "$ROOT/${B#"$ROOT"/}/fake" 2>/dev/null) && lx-gpu --list | grep -q '^compiled for'
}

@test "lx-kernel: a plugin made with nvcc has kernels for CUDA devices, one made without is refused there" {
	has_cuda || return 0
	plugin -o text.so text.cu
	exits 2 fake "$PWD/text.so" --plugin text.so half <in.lx
	says '--plugin ./text.so' 'no kernels for a CUDA device' -DLX_FATBIN
	local nvcc
	nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
	"$nvcc" -fatbin -arch=sm_80 -I"$B/include" -o text.fatbin text.cu
	plugin -DLX_FATBIN='"text.fatbin"' -o both.so text.cu
	[[ $("$PY" -c 'print(open("both.so", "rb").read().count(open("text.fatbin", "rb").read()))') == 1 ]]
	lx-gpu -q --device cpu --plugin both.so half start last <in.lx >cpu.lx
	fake "$PWD/both.so" --plugin both.so half start last <in.lx >cuda.lx
	same_stream cpu.lx cuda.lx
	# one that was changed since, and calls that fail
	sed 's/float\[2\]/float[3]/' text.cu >new.cu
	plugin -DLX_FATBIN='"text.fatbin"' -o new.so new.cu
	exits 2 fake "$PWD/both.so" --plugin new.so half <in.lx
	says './new.so: kernel half for CUDA devices is not the one for the CPU'
	fake "$PWD/both.so" --plugin new.so start <in.lx >out
	local call
	for call in cuModuleGetGlobal:1 cuMemcpyDtoH:1 cuModuleGetFunction:1; do
		FAKE_CUDA_FAIL=$call exits 6 fake "$PWD/both.so" --plugin both.so half <in.lx
		says 'kernel half: an illegal memory access'
	done
	# and for all architectures, as the manual has it
	"$nvcc" -fatbin -arch=all -I"$B/include" -Werror all-warnings -o all.fatbin "$ROOT/examples/my-kernel.cu"
}

@test "lx-kernel: a file is compiled for the CUDA device, too, and what that says is shown" {
	has_cuda || return 0
	plugin -o text.so text.cu
	lx-gpu -q --device cpu --kernel text.cu half start last <in.lx >cpu.lx
	if ! fake "$PWD/text.so" --kernel text.cu half start last <in.lx >cuda.lx 2>err; then
		says libnvrtc 'CUDA toolkit'
		return
	fi
	same_stream cpu.lx cuda.lx
	# C, but not C++
	sed 's/^LX_PHASE(less)/LX_FN int *f(void *p) { return p; }\n&/' text.cu >c.cu
	lx-gpu -q --device cpu --kernel c.cu half <in.lx >out
	exits 2 fake "$PWD/text.so" --kernel c.cu half <in.lx
	grep -qE 'c\.cu\(14\): error' err || fail "$(<err)"
	grep -q '^lx-gpu: --kernel ./c.cu: it does not compile for the CUDA device' err || fail "$(<err)"
}

@test "lx-kernel: a kernel without end does not outlive SIGTERM" {
	cat >spin.cu <<'END_OF_KERNEL'
#include <lx/kernel.h>
LX_PHASE(forever)
{
	while (*(volatile const uint64_t *)&k->len)
		;
	LX_ONCE
		k->out[0] = 0;
}
LX_KERNEL(spin, LX_BYTES, "uint", "", 0, forever)
LX_PLUGIN(spin)
END_OF_KERNEL
	busy() { (($(awk '{ print $14 }' "/proc/$1/stat") > 30)); }
	lx-gpu -q --device cpu --kernel spin.cu spin <in.lx >out 2>err 3>&- &
	local pid=$! got=0
	wait_for 60 busy $pid
	kill -TERM $pid
	wait_for 20 gone $pid || { kill -KILL $pid; fail "still there"; }
	wait $pid || got=$?
	((got == 143)) || fail "$got: $(<err)"
}
