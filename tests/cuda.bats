# The CUDA device, on a driver that is none (tests/fake/cuda.c): what the host does, and the kernels run thread by thread.
load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	FAKE=$(cd "$ROOT" && realpath "$B/fake")
	"$PY" "$ROOT/tests/image_reference.py" make .
	lx-in --run r --read -d page <list | lx-batch -n 8 >in.lx
	ops=(dhash phash sharpness ink luma resize:37x21:letterbox:u8)
}

# lx-gpu with the fake driver.
fake() {
	LD_LIBRARY_PATH=$FAKE lx-gpu -q --device cuda "$@"
}

# Without CUDA in the build there is one thing to test.
has_cuda() {
	lx-gpu --list | grep -q '^compiled for' && return
	exits 6 lx-gpu --device cuda ink <in.lx && says 'built without CUDA'
	return 1
}

@test "cuda: answers are those of the CPU, in whatever order threads run and however a frame is cut" {
	has_cuda || return 0
	lx-gpu -q --device cpu "${ops[@]}" <in.lx >cpu.lx
	fake "${ops[@]}" <in.lx >cuda.lx
	same_stream cpu.lx cuda.lx
	FAKE_CUDA_ORDER=backwards fake "${ops[@]}" <in.lx >cuda.lx
	same_stream cpu.lx cuda.lx
	fake --device-mem 60M -j 3 "${ops[@]}" <in.lx >cuda.lx
	same_stream cpu.lx cuda.lx
	lx-gpu -q --device cpu luma:4 <in.lx >cpu.lx
	fake luma:4 <in.lx >cuda.lx
	same_stream cpu.lx cuda.lx
}

@test "cuda: a bad image fails alone" {
	has_cuda || return 0
	head -c 900 page-640x480.png >cut.png
	: >empty
	printf '%s\n' cut.png grey.jpg empty plain.ppm | lx-in --run r --read -d page >b.lx
	lx-gpu -q --device cpu "${ops[@]}" <b.lx >cpu.lx
	fake "${ops[@]}" <b.lx >cuda.lx
	same_stream cpu.lx cuda.lx
	printf '%s\n' cut.png empty | lx-in --run r --read -d page | fake ink | lx-out -q --failures bad --max-failed 2
	[[ $(jq -r .lx.cause.type bad) == $'bad-image\nbad-image' ]]
}

@test "cuda: where memory ends, a frame goes in pieces, and what does not fit alone fails" {
	has_cuda || return 0
	lx-gpu -q --device cpu "${ops[@]}" <in.lx >cpu.lx
	# three lanes share it; the largest image is 2 M pixels in colour
	FAKE_CUDA_MEM=40000000 fake "${ops[@]}" <in.lx >cuda.lx
	same_stream cpu.lx cuda.lx
	FAKE_CUDA_MEM=2000000 fake "${ops[@]}" <in.lx | lx-out -q --failures bad --max-failed 100% >out
	[[ -s out && -s bad && $(cat out bad | wc -l) == $(wc -l <list) ]]
	[[ $(jq -r .lx.cause.type bad | sort -u) == oversize ]]
	lx-out -q <cpu.lx >all
	# frames leave as they are done
	[[ $(jq -c '[.path, .dhash, .luma]' out | sort) == "$(grep -Ff <(jq .path out) all | jq -c '[.path, .dhash, .luma]' | sort)" ]]
}

@test "cuda: --device-mem is the most it takes, also for many small items" {
	has_cuda || return 0
	seq 30000 | lx-in --run r --lines -d line | lx-batch -n 30000 >small.lx
	lx-gpu -q --device cpu minhash:2:1 simhash <small.lx >cpu.lx
	FAKE_CUDA_BOUND=3000000 fake --device-mem 3000000 minhash:2:1 simhash <small.lx >cuda.lx
	same_stream cpu.lx cuda.lx
}

@test "cuda: a call that fails ends the process with 6, unanswered, wherever it is" {
	has_cuda || return 0
	for call in cuDeviceGetName:1 cuDevicePrimaryCtxRetain:1 cuMemGetInfo:1 cuStreamCreate:2 cuModuleLoadData:1 cuCtxSetCurrent:2 \
		cuModuleGetFunction:3 cuFuncGetAttribute:1 cuMemHostAlloc:1 cuMemAlloc:1 cuMemcpyHtoDAsync:1 cuMemcpyHtoDAsync:4 \
		cuLaunchKernel:1 cuLaunchKernel:9 cuMemcpyDtoHAsync:2 cuStreamSynchronize:1 cuStreamSynchronize:3; do
		export FAKE_CUDA_FAIL=$call
		exits 6 fake "${ops[@]}" <in.lx
		says CUDA_ERROR_ILLEGAL_ADDRESS 'illegal memory access' || fail "$call"
		[[ $(wc -l <err) == 1 ]] || fail "$call: $(<err)"
	done
	for call in cuInit:1 cuDeviceGetCount:1; do
		FAKE_CUDA_FAIL=$call:100
		exits 6 fake ink <in.lx
		says 'CUDA driver'
	done
}

@test "cuda: lx-batch gives what a lost device had to another worker" {
	has_cuda || return 0
	lx-gpu -q --device cpu "${ops[@]}" <in.lx >cpu.lx
	export LD_LIBRARY_PATH=$FAKE
	lx-batch -q -n 8 -W "FAKE_CUDA_FAIL=cuLaunchKernel:3 lx-gpu -q --device cuda ${ops[*]}" -W "lx-gpu -q --device cuda ${ops[*]}" \
		<in.lx >out.lx 2>err || fail "$(<err)"
	same_stream cpu.lx out.lx
	grep -q CUDA_ERROR_ILLEGAL_ADDRESS err
}

@test "cuda: auto takes the device that is there, and says so" {
	has_cuda || return 0
	LD_LIBRARY_PATH=$FAKE lx-gpu ink <in.lx 2>err >/dev/null
	says 'device: cuda:0, fake 0'
	FAKE_CUDA_COUNT=0 LD_LIBRARY_PATH=$FAKE lx-gpu ink <in.lx 2>err >/dev/null
	says 'device: cpu' 'does not start'
	FAKE_CUDA_COUNT=2 LD_LIBRARY_PATH=$FAKE lx-gpu --device cuda:1 ink <in.lx >/dev/null
	FAKE_CUDA_COUNT=2 LD_LIBRARY_PATH=$FAKE exits 6 lx-gpu --device cuda:2 ink <in.lx
	says 'no cuda:2'
	FAKE_CUDA_COUNT=2 LD_LIBRARY_PATH=$FAKE lx-gpu --list >list.out
	grep -q '^device	cuda:1' list.out
	grep -q '^compiled for	cuda	.*sm_80' list.out
}

@test "cuda: the scripts for machines with a device run, and skip in one line without" {
	has_cuda || return 0
	export B=$(cd "$ROOT" && realpath "$B")
	LD_LIBRARY_PATH=$FAKE SECONDS_EACH=0 SEED=5 PAGES=4 "$ROOT/tests/device/run" check >check.out || fail "$(<check.out)"
	for op in dhash phash sharpness ink luma ink:200; do grep -q "^equal: $op, 4 batches" check.out || fail "$op: $(<check.out)"; done
	[[ $(grep -c '^equal: lx-gpu' check.out) == 6 ]]
	FAKE_CUDA_ORDER=backwards LD_LIBRARY_PATH=$FAKE "$B/device/check" 0 7 >check.out || fail "$(<check.out)"
	LD_LIBRARY_PATH=$FAKE MIB=4 "$ROOT/tests/device/run" bench >bench.out || fail "$(<bench.out)"
	grep -q '^dhash .*of a copy' bench.out
	grep -q '^stream: ' bench.out
	for what in check bench; do
		FAKE_CUDA_COUNT=0 LD_LIBRARY_PATH=$FAKE "$ROOT/tests/device/run" $what >skip.out
		[[ $(<skip.out) == 'skipped: no CUDA GPU: '* && $(wc -l <skip.out) == 1 ]] || fail "$(<skip.out)"
	done
}
