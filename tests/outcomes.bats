# Outcomes in awkward orders, and random pipelines against a model of the rules.
load lib

peer() { "$PY" "$ROOT/tests/lxpeer.py" make; }

B_A='{"begin":{"domains":["doc","page"],"ops":[{"tool":"peer","domain":0,"writes":["data"]}]}}'
CAUSE='{"type":"bad-pdf","message":"no","anchor":[0,[0]],"origin":[0,[0]]}'

@test "outcomes: a failed expansion fails its parent whichever of its records comes first" {
	local parent='[1,0,[0],{"path":"a"},"a"]' close="[3,1,[0],1,2,$CAUSE]" child="[2,1,[0,0],3,$CAUSE,null]" order
	for order in "$parent $close $child" "$parent $child $close" "$child $parent $close" "$close $child $parent" "$child $close $parent"; do
		printf '%s\n' "$B_A" $order | peer | lx-gather -d page >out.lx
		lx-cat --canonical out.lx >out
		[[ $(wc -l <out) == 1 ]]
		[[ $(jq -c '[.[3], .[4].type, .[5].path]' out) == '[2,"bad-pdf","a"]' ]] || fail "$order: $(<out)"
	done
}

@test "outcomes: a parent that is found doomed by another stage keeps its fields" {
	local child='[2,1,[0,0],2,{"type":"bad","message":"","anchor":[1,[0,0]],"origin":[1,[0,0]]},{}]' order
	printf '%s\n' "$B_A" "[3,1,[0],1,0,null]" "$child" '[1,0,[0],{"data":"x"},"a"]' | peer >barred.lx
	for stage in 'lx-map -- cat' 'lx-filter data==x' 'lx-filter -- true' 'lx-batch -- lx-map -- cat'; do
		# shellcheck disable=SC2086
		${stage%% *} -d doc ${stage#* } <barred.lx | lx-gather -d page | lx-cat --canonical >out
		[[ $(jq -c '[.[3], .[5].data]' out) == '[3,"x"]' ]] || fail "$stage: $(<out)"
	done
	# the same when it is already held: the child is judged after the parent was taken
	mkfifo feed
	bg bash -c 'lx-map -d doc -- sh -c ": >begun; until [ -e go ]; do sleep 0.02; done; cat" <feed | lx-gather -d page | lx-cat --canonical >out'
	printf '%s\n' "$B_A" '[1,0,[0],{"data":"x"},"a"]' "$child" "[3,1,[0],1,0,null]" | peer >held.lx
	cat held.lx >feed
	wait_for 20 test -e begun
	: >go
	wait_for 20 gone "$PID"
	[[ $(jq -c '[.[3], .[5].data]' out) == '[3,"x"]' ]] || fail "held: $(<out)"
}

@test "outcomes: an item that is read again after it was dropped carries nothing" {
	printf '%s\n' "$B_A" '[2,0,[0],1,null,null,"a"]' '[1,0,[0],{"data":"x"},"a"]' | peer | lx-map -d doc -- cat | lx-cat --canonical >out
	[[ $(grep -c '^\[2,0,\[0\],1,null,null,"a"\]$' out) == 2 ]] || fail "$(<out)"
}

@test "lx-fail: what is replayed does not say any more what was missing" {
	run_all() {
		lx-expand -d page -s delim:' ' --keep --tolerate 50% | lx-map -d page -o n:int -- sh -c 'read -r n; [ "$n" != "$BAD" ] || exit 1; echo "$n"' |
			lx-gather -d page -f n | lx-map -d doc -i data -- sh -c '[ -z "$BAD" ] || exit 1; cat'
	}
	printf '1 2 3\n4 5\n' | lx-in --run r --lines -d doc >in.lx
	BAD=2 run_all <in.lx >first.lx 2>err
	[[ $(lx-fail --list --json <first.lx | jq -c .missing) == $'[[1,"exit","page"]]\nnull' ]]
	lx-fail --replay <first.lx | BAD='' run_all | lx-out -q >again
	lx-cat in.lx | BAD='' run_all | lx-out -q >clean
	diff clean again
}

@test "outcomes: random pipelines do what the model says" {
	local n=12
	! sanitized || n=3
	"$PY" "$ROOT/tests/random_pipelines.py" -n $n
}
