load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	printf 'P2\n3 2\n255\n0 128 255\n255 128 0\n' >a.pgm
	printf a.pgm >list
	lx-in --run r --read -d page <list >in.lx
}

@test "lx-gpu: every op on every kind of image is what an independent program says" {
	mkdir im
	"$PY" "$ROOT/tests/image_reference.py" make im
	lx-in --read -d page <im/list | lx-batch -n 7 | lx-gpu -q -j 3 --drop data dhash phash sharpness ink luma | lx-out -q >got
	mapfile -t files <im/list
	"$PY" "$ROOT/tests/image_reference.py" answers "${files[@]}" >want
	"$PY" - <<'END'
import json
want = {d['name']: d for d in map(json.loads, open('want'))}
got = [json.loads(line) for line in open('got')]
assert len(got) == len(want) > 40, (len(got), len(want))
for g in got:
    w = want[g['path']]
    for op in ('dhash', 'phash', 'ink', 'luma', 'sharpness'):
        same = abs(g[op] - w[op]) <= 1e-12 * abs(w[op]) if isinstance(w[op], float) else g[op] == w[op]
        assert same or (op == 'phash' and w['near']), (g['path'], op, g[op], w[op])
END
}

@test "lx-gpu: small images by hand" {
	lx-gpu -q ink luma:2 sharpness <in.lx | lx-out -q >out
	[[ $(jq -c '[.ink, .luma]' out) == "[$(jq -n 2/6),[2,4]]" ]] || fail "$(<out)"
	lx-gpu -q -o blank --drop data ink:1 <in.lx | lx-out -q >out
	[[ $(jq -c '[.blank, has("data"), has("ink")]' out) == "[$(jq -n 2/6),false,false]" ]] || fail "$(<out)"
}

# tensor SPEC FIT TYPE NUMBERS: resize:SPEC is what Pillow makes of the same images.
tensor() {
	lx-gpu -q -o t --drop data "resize:$1" <im.lx | lx-out -q >got
	"$PY" "$ROOT/tests/image_reference.py" tensor "${1%%:*}" "$2" "$3" "$4" "${files[@]}" >want
	"$PY" - "$3" <<'END' || fail "resize:$1"
import json, sys
want = {d['name']: d for d in map(json.loads, open('want'))}
got = [json.loads(line) for line in open('got')]
assert len(got) == len(want) > 40, (len(got), len(want))
kind = {'f32': 'float32', 'f16': 'float16', 'u8': 'uint8'}[sys.argv[1]]
for g in got:
    w = want[g['path']]
    assert (g['t']['shape'], g['t']['type'], g['t']['data']['$bin']) == (w['shape'], kind, w['data']), g['path']
END
}

@test "lx-gpu: resize gives Pillow's pixels as numbers, bit for bit" {
	mkdir im
	"$PY" "$ROOT/tests/image_reference.py" make im
	lx-in --read -d page <im/list >im.lx
	mapfile -t files <im/list
	local plain=0,0,0,1,1,1 usual=0.485,0.456,0.406,0.229,0.224,0.225
	tensor 32x24:u8 fill u8 $plain
	tensor 31x7:letterbox:u8 letterbox u8 $plain
	tensor 5x19 fill f32 $plain
	tensor 224x224:letterbox:f32:$usual letterbox f32 $usual
	tensor 33x40:f16:$usual fill f16 $usual
	tensor 8x8:f16:0.5,0.00001 fill f16 0.5,0.5,0.5,0.00001,0.00001,0.00001
	tensor 8x8:f16:0,60000 fill f16 0,0,0,60000,60000,60000
	tensor 1x1:letterbox:0.5,0.25 letterbox f32 0.5,0.5,0.5,0.25,0.25,0.25
}

@test "lx-gpu: samples are what the file has, whatever their depth, gamma, transparency and order" {
	mkdir im
	"$PY" "$ROOT/tests/image_samples.py" im >want
	jq -r .name want | lx-in --read -d page | lx-gpu -q --drop data resize:13x11:u8 | lx-out -q >got
	jq -c '{name, pixels}' want | sort >1
	jq -c '{name: .path, pixels: .resize.data["$bin"]}' got | sort >2
	(($(wc -l <1) > 180))
	diff 1 2
}

@test "lx-gpu: resize by hand, and what it refuses" {
	lx-gpu -q resize:3x2:u8 <in.lx | lx-out -q >out
	[[ $(jq -r '.resize.data["$bin"]' out | base64 -d | od -An -tu1 | tr -s ' \n' ' ') == "$(printf ' 0 128 255 255 128 0%.0s' 1 2 3) " ]] || fail "$(<out)"
	[[ $(jq -c '.resize | [.shape, .type]' out) == '[[3,2,3],"uint8"]' ]]
	exits 2 lx-gpu resize <in.lx && says 'resize:WxH' missing
	for bad in 0x4 4 4x x4 4x4x4 5000x2 -1x4 4x+4 ' 4x4' 4x4:box 4x4:f64 4x4:0.5 4x4:1,2,3 4x4:1,2,3,4,5,6,7 4x4:0,0 4x4:0,-1 4x4:nan,1 4x4:0,inf \
		4x4:u8:0,1 4x4:f16:f32 4x4:letterbox:letterbox 4x4:0,1:0,1 4x4:; do
		exits 2 lx-gpu "resize:$bad" <in.lx && says 'resize:WxH'
	done
}

@test "lx-gpu: frames stay, threads and framing change nothing" {
	for ((i = 0; i < 50; i++)); do
		printf 'P2\n%d %d\n255\n' $((1 + i % 7)) $((1 + i % 5)) >"p$i.pgm"
		for ((k = 0; k < (1 + i % 7) * (1 + i % 5); k++)); do echo $(((i * 37 + k * 11) % 256)); done >>"p$i.pgm"
	done
	ls p*.pgm | lx-in --run r --read -d page >p.lx
	lx-gpu -q -j 1 dhash phash ink <p.lx >one.lx
	lx-batch -n 1 <p.lx | lx-gpu -q -j 4 dhash phash ink >many.lx
	same_stream one.lx many.lx
	lx-batch -q -n 8 -j 2 -- lx-gpu -q -j 1 dhash phash ink <p.lx >workers.lx
	same_stream one.lx workers.lx
	frames() { "$PY" -c 'import sys; print(open(sys.argv[1], "rb").read().count(b"\x28\xb5\x2f\xfd"))' "$1"; }
	lx-batch -n 8 <p.lx >b.lx
	lx-gpu -q ink <b.lx >out.lx
	[[ $(frames b.lx) == 7 && $(frames out.lx) == 7 ]]
}

@test "lx-gpu: with little device memory a frame goes in pieces, and what does not fit alone fails" {
	"$PY" "$ROOT/tests/image_reference.py" make .
	lx-in --run r --read -d page <list >in.lx
	lx-gpu -q dhash luma <in.lx >whole.lx
	lx-gpu -q --device-mem 16M dhash luma <in.lx >pieces.lx
	same_stream whole.lx pieces.lx
	lx-gpu -q --device-mem 64K dhash luma <in.lx | lx-out -q --failures bad --max-failed 100% >out
	lx-gpu -q dhash luma <in.lx | lx-out -q >all
	[[ -s out && -s bad && $(cat out bad | wc -l) == $(wc -l <all) ]]
	[[ $(jq -r .lx.cause.type bad | sort -u) == oversize ]]
	jq -r .lx.cause.message bad | grep -q -- --device-mem
	[[ $(jq -c '[.path, .dhash, .luma]' out) == "$(grep -Ff <(jq '.path' out) all | jq -c '[.path, .dhash, .luma]')" ]]
}

@test "lx-gpu: a bad image fails alone" {
	head -c 20 a.pgm >cut.pgm
	printf 'GIF89a' >a.gif
	: >empty
	printf 'P5\n70000 70000\n255\n' >huge.pgm
	printf 'P2 2 2 255 1 2 3 4 and more' >more.pgm
	"$PY" "$ROOT/tests/image_reference.py" make .
	head -c 900 page-640x480.png >cut.png
	head -c 1500 page-640x480.jpg >cut.jpg
	"$PY" -c 'b = bytearray(open("page-640x480.png", "rb").read()); b[len(b) // 2] ^= 255; open("bad.png", "wb").write(b)'
	printf '%s\n' cut.pgm a.gif empty huge.pgm more.pgm a.pgm cut.png cut.jpg bad.png grey.jpg | lx-in --run r --read -d page >b.lx
	lx-gpu -q ink <b.lx | lx-out -q --failures bad --max-failed 8 >out
	[[ $(jq -r .path out) == $'a.pgm\ngrey.jpg' ]] || fail "$(jq -r .path out)"
	[[ $(jq -r '.path + " " + .lx.cause.type' bad | sort) == $'a.gif bad-image\nbad.png bad-image\ncut.jpg bad-image\ncut.pgm bad-image\ncut.png bad-image\nempty bad-image\nhuge.pgm bad-image\nmore.pgm bad-image' ]] || fail "$(<bad)"
	jq -r .lx.cause.message bad >why
	grep -q 'first bytes 47 49 46 38' why
	grep -q '70000 x 70000 pixels, over 268435456 (--max-pixels)' why
	printf '{"data":5}\n{"x":1}\n' | lx-in --jsonl -d page | lx-gpu -q ink | lx-out -q --failures bad --max-failed 2
	[[ $(jq -r .lx.cause.type bad) == $'bad-field\nno-field' ]]
	[[ $(jq -r .lx.cause.message bad) == $'the field \'data\' is neither a string nor bytes (-i)\nno field \'data\' (-i)' ]] || fail "$(<bad)"
	lx-gpu -q --max-pixels 5 ink <in.lx | lx-out -q --max-failed 1 --failures bad
	[[ $(jq -r .lx.cause.message bad) == '3 x 2 pixels, over 5 (--max-pixels)' ]]
}

@test "lx-gpu: what an image declares takes no memory, only what it has" {
	"$PY" - <<'END'
import struct, zlib
def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
def png(name, size, *chunks):
    head = struct.pack('>IIBBBBB', size, size, 8, 2, 0, 0, 0)
    open(name, 'wb').write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + b''.join(chunks) + chunk(b'IEND', b''))
z = zlib.compressobj(1)
bomb = b''.join(z.compress(bytes(1 << 20)) for _ in range(400)) + z.flush()
few = chunk(b'IDAT', zlib.compress(bytes(4 * (1 + 3 * 4))))
png('declared.png', 16000, few)
png('text.png', 4, chunk(b'zTXt', b'Comment\0\0' + bomb), few)
png('profile.png', 4, chunk(b'iCCP', b'name\0\0' + bomb), few)
png('more.png', 4, chunk(b'IDAT', bomb))
open('declared.ppm', 'wb').write(b'P6 16000 16000 255\n12')
END
	ls *.png *.ppm a.pgm | lx-in --read -d page >b.lx
	(sanitized || ulimit -v 300000; exec lx-gpu -q --device cpu -j 1 --drop data ink <b.lx) | lx-out -q --failures bad --max-failed 3 >out
	[[ $(jq -r .path out) == $'a.pgm\nprofile.png\ntext.png' ]] || fail "$(cat out bad)"
	jq -r '.path + ": " + .lx.cause.message' bad >why
	grep -q 'declared.png: PNG: 16000 x 16000 pixels cannot be in' why
	grep -q 'declared.ppm: netpbm: 2 bytes of pixels, not 768000000' why
	grep -q 'more.png: PNG: IDAT: Too much image data (after ' why
}

@test "lx-gpu: an image cut or changed at any byte is no crash" {
	"$PY" "$ROOT/tests/image_reference.py" make .
	"$PY" - <<'END'
import random
r = random.Random(1)
names = ['palette.png', 'interlaced.png', 'progressive.jpg', 'grey.jpg', 'bits.pbm', 'plain.ppm', 'colour.ppm']
with open('cuts', 'w') as out:
    for n in names:
        b = open(n, 'rb').read()
        for i in range(0, len(b), max(1, len(b) // 60)):
            open(f'c-{n}-{i}', 'wb').write(b[:i])
            c = bytearray(b)
            c[r.randrange(len(c))] ^= 1 << r.randrange(8)
            open(f'd-{n}-{i}', 'wb').write(c)
            out.write(f'c-{n}-{i}\nd-{n}-{i}\n')
END
	lx-in --read -d page <cuts | lx-gpu -q dhash ink | lx-out -q --failures bad --max-failed 100% >out
	[[ $(cat out bad | wc -l) == $(wc -l <cuts) ]]
	# never half an image: only digits of the last number may be missing
	jq -r .path out | grep ^c- | while IFS=- read -r _ name at; do
		[[ $name == plain.ppm ]] && (($(stat -c %s "$name") - at <= 4)) || fail "$name cut after $at bytes is taken for an image"
	done
}

@test "lx-gpu: wrong options, ops and devices" {
	exits 2 lx-gpu <in.lx && says 'no op'
	exits 2 lx-gpu dhush <in.lx && says dhush --list
	exits 2 lx-gpu luma:3 <in.lx && says 'luma[:BINS]' 'power of two'
	exits 2 lx-gpu ink ink:7 <in.lx && says twice
	exits 2 lx-gpu -o x ink dhash <in.lx && says -o
	exits 2 lx-gpu --device tpu ink <in.lx && says tpu
	exits 6 lx-gpu --device cuda:900 ink <in.lx && says cuda:900
	exits 2 lx-gpu --device cuda:x ink <in.lx && says cuda:N
	exits 2 lx-gpu --device cudo ink <in.lx && says cudo
	exits 2 lx-gpu -i nothing ink <in.lx && says nothing
	exits 2 lx-gpu ink --from in.lx && says "'--from' behind an op: options go before the ops"
	exits 2 lx-gpu ink -q <in.lx && says "'-q' behind an op"
	exits 2 lx-gpu -j 1025 ink <in.lx && says -j 1024
	lx-gpu --device auto ink <in.lx 2>err >/dev/null
	says 'device: c'
	lx-gpu --list >out
	for op in dhash phash sharpness ink luma resize; do grep -q "^op	$op" out; done
	local words option
	for words in dhash 'dhash ink' '-d page' '-i x' '-o x' '--device foo' '--device cpu' '-j 2' '--device-mem 1M' '--max-pixels 5' '--drop x' \
		'--stats x' '--trace x' '--from in.lx' '--to x' '--compress raw'; do
		option=${words%% *}
		# shellcheck disable=SC2086
		exits 2 lx-gpu --list $words <in.lx
		says "'$option' with --list"
		[[ ! -e x ]]
	done
}

@test "lx-gpu: --list names the architectures in their order, and every column is one the manual has" {
	lx-gpu --list >out
	! grep '^compiled for' out >archs || { tr ' ' '\n' <archs | grep -o 'sm_[0-9]*' >got && sort -V got | diff got - && grep -q PTX archs; } || fail "$(<archs)"
	! grep -vE '^(device|no device|compiled for|op)	[^	]+	[^	]+$' out
}

@test "lx-gpu: a field that is there already is replaced, the one that was read too" {
	lx-gpu -q -o data ink:129 <in.lx | lx-out -q >out
	[[ $(jq .data out) == 0.6666666666666666 ]] || fail "$(<out)"
	lx-gpu -q -o path ink:129 <in.lx | lx-out -q >out
	[[ $(jq -c '[.path]' out) == '[0.6666666666666666]' ]] || fail "$(<out)"
}

@test "lx-gpu: results much larger than the image need no more room than there are items" {
	# 64 of these at once would be 13 GB
	sanitized || ulimit -v 2000000
	lx-gpu -q -j 1 -o t --drop data resize:4096x4096:f32 <in.lx | lx-cat --canonical >out || fail
	(($(stat -c %s out) > 200000000))
}

@test "lx-gpu: the standard checks of every stage" {
	lx-in --run r --read -d page </dev/null >empty.lx
	stage_empty empty.lx lx-gpu -q ink
	stage_cut in.lx lx-gpu -q ink
	stage_full in.lx lx-gpu -q ink
	stage_gone in.lx lx-gpu -q ink
}
