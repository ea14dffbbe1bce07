load lib

B_ABC='{"begin":{"domains":["doc","page",{"name":"region","parent":1,"state":"open"}],"ops":[{"tool":"peer","domain":0,"writes":["t","u"]},{"tool":"peer","domain":1,"writes":["p"]},{"tool":"peer","domain":2,"writes":["d"]}]}}'
B_AB='{"begin":{"domains":["doc","page"],"ops":[{"tool":"peer","domain":0,"writes":["t","u"]},{"tool":"peer","domain":1,"writes":["p"]}]}}'
GONE='{"type":"bad-pdf","message":"no","anchor":[0,[0]],"origin":[0,[0]]}'

# stream RECORD...: a stream of the plan in $PLAN, each argument a frame.
stream() { printf '%s\n' "${PLAN:-$B_AB}" "$@" | "$PY" "$ROOT/tests/lxpeer.py" make; }
# fields FILE DOMAIN-INDEX: "id fields" of the present items of a domain, sorted.
fields() { lx-cat --canonical "$1" | jq -cr "select(.[0] == 1 and .[1] == $2) | \"\(.[2] | map(tostring) | join(\".\")) \(.[3])\""; }
verdicts() { lx-cat --canonical "$1" | jq -r 'select(.[0] == 2) | "\(.[1]) \(.[2] | map(tostring) | join(".")) \(.[3]) \(.[4].type)"'; }

D0='[1,0,[0],{"t":"A","u":1},"a"]' D1='[1,0,[1],{"t":"B","u":2},"b"]'
P00='[1,1,[0,0],{"p":0}]' P01='[1,1,[0,1],{"p":1}]' P10='[1,1,[1,0],{"p":0}]'
C0='[3,1,[0],2,0,null]' C1='[3,1,[1],1,0,null]'

@test "lx-broadcast: every order gives the same" {
	local want=$'0.0 {"p":0,"t":"A"}\n0.1 {"p":1,"t":"A"}\n1.0 {"p":0,"t":"B"}' n=0 order
	while read -r order; do
		eval "set -- $order"
		stream "$@" >in.lx
		lx-broadcast -i t <in.lx >out.lx
		[[ $(fields out.lx 1) == "$want" ]] || fail "$order: $(fields out.lx 1)"
		n=$((n + 1))
	done < <("$PY" -c '
import itertools
for p in itertools.permutations(["$D0", "$P00", "$P01", "$C0"]):
    for at in (0, 2, 4):
        q = list(p); q[at:at] = ["$P10", "$D1", "$C1"] if at % 4 else ["$D1", "$C1", "$P10"]
        print(" ".join("\"%s\"" % x for x in q))')
	((n == 72))
}

@test "lx-broadcast: several fields, another name, one that is replaced" {
	stream "$D0" "$P00" "$P01" "$C0" >in.lx
	lx-broadcast -i t,u <in.lx >out.lx
	[[ $(fields out.lx 1 | head -1) == '0.0 {"p":0,"t":"A","u":1}' ]]
	lx-broadcast -i t -o title <in.lx >out.lx
	[[ $(fields out.lx 1 | head -1) == '0.0 {"p":0,"title":"A"}' ]]
	lx-broadcast -i u -o p <in.lx >out.lx
	[[ $(fields out.lx 1) == $'0.0 {"p":1}\n0.1 {"p":1}' ]]
	lx-broadcast -i t <in.lx | lx-cat --json | head -1 >begin
	[[ $(jq -c '.begin.ops[-2:] | map([.tool, .domain, .reads, .writes])' begin) == '[["lx-broadcast",0,["t"],[]],["lx-broadcast",1,[],["t"]]]' ]]
}

@test "lx-broadcast: what is in order keeps its frames, and nothing waits" {
	stream "$D0 " "$P00" "$P01" "$C0" | lx-batch -n 1 >in.lx
	lx-broadcast -i t --stats stats <in.lx >out.lx
	[[ $(jq -c '[.waited, .spilled_bytes, .out.page.present]' stats) == '[0,0,2]' ]]
	frames() { "$PY" -c 'import sys; b = open(sys.argv[1], "rb").read(); print(b.count(b"\x28\xb5\x2f\xfd"))' "$1"; }
	lx-batch -n 1 <in.lx >same.lx
	[[ $(frames out.lx) == $(frames same.lx) ]]
}

@test "lx-broadcast: from a document to the regions of its pages, in every order" {
	local PLAN=$B_ABC order
	local d='[1,0,[0],{"t":"A"},"a"]' p='[1,1,[0,0],{"p":7}]' r='[1,2,[0,0,0],{"d":1}]' cp='[3,1,[0],1,0,null]' cr='[3,2,[0,0],1,0,null]'
	for order in "$d $p $r $cr $cp" "$r $cr $cp $p $d" "$p $r $d $cp $cr" "$cp $cr $d $p $r" "$r $d $cr $p $cp"; do
		# shellcheck disable=SC2086
		stream $order >in.lx
		lx-broadcast --of doc -i t <in.lx | lx-broadcast -d region --of page -i p >out.lx
		[[ $(fields out.lx 2) == '0.0.0 {"d":1,"t":"A","p":7}' ]] || fail "$order: $(fields out.lx 2)"
		[[ $(lx-gather <out.lx | lx-gather | lx-out -q | jq -c '[.t, .page[0].region[0].t]') == '["A","A"]' ]]
	done
	# and with real stages, the slow one in the middle
	printf 'a b\nc\n' | lx-in --lines -d doc | lx-expand -d page -s delim:' ' --keep | lx-expand -d region --keep -s delim:- |
		lx-map -d doc -o slow -- sh -c 'sleep 0.1; tr a-z A-Z' | lx-broadcast -d region --of doc -i slow | lx-gather | lx-gather | lx-out -q >out
	[[ $(jq -c '[.page[].region[].slow]' out) == $'["A B","A B"]\n["C"]' ]] || fail "$(<out)"
}

@test "lx-broadcast: sibling domains of one parent, each gathered on its own" {
	printf '{"frames":["f0","f1"],"audio":["s0"]}\n{"frames":[],"audio":["s1","s2"]}\n' | lx-in --jsonl -d video |
		lx-expand -d frame --of video -i frames | lx-expand -d sound --of video -i audio | lx-map -d video -o name -- sh -c 'echo v$LX_ID' |
		lx-broadcast -d frame -i name | lx-broadcast -d sound --of video -i name -o of | lx-map -d frame -- cat |
		lx-gather -d frame | lx-gather -d sound | lx-out -q >out
	[[ $(jq -sc 'sort_by(.name)[] | [.name, [.frame[] | [.data, .name]], [.sound[] | [.data, .of]]]' out) == \
		$'["v0",[["f0","v0"],["f1","v0"]],[["s0","v0"]]]\n["v1",[],[["s1","v1"],["s2","v1"]]]' ]] || fail "$(<out)"
}

@test "lx-broadcast: an ancestor that is not present does what it does everywhere" {
	local outcome want before
	for outcome in 1:1:null 2:3:bad-pdf 3:3:bad-pdf; do
		IFS=: read -r o want type <<<"$outcome"
		local gone="[2,0,[0],$o,$([[ $o == 1 ]] && echo null || echo "$GONE"),null,\"a\"]"
		for before in "$gone $P00 $P01 $C0" "$P00 $P01 $C0 $gone" "$P00 $gone $C0 $P01"; do
			# shellcheck disable=SC2086
			stream $before "$D1" "$P10" "$C1" >in.lx
			lx-broadcast -i t <in.lx >out.lx
			[[ $(verdicts out.lx | grep ^1) == "1 0.0 $want $type"$'\n'"1 0.1 $want $type" ]] || fail "$before: $(verdicts out.lx)"
			[[ $(fields out.lx 1) == '1.0 {"p":0,"t":"B"}' ]]
		done
	done
}

@test "lx-broadcast: a page that failed, and what waits below it" {
	local PLAN=$B_ABC
	local d='[1,0,[0],{"t":"A"},"a"]' r0='[1,2,[0,0,0],{"d":1}]' r1='[1,2,[0,1,0],{"d":2}]' p1='[1,1,[0,1],{"p":1}]'
	local gone='[2,1,[0,0],2,{"type":"torn","message":"","anchor":[1,[0,0]],"origin":[1,[0,0]]},null]'
	for order in "$r0 $r1 $gone $p1 $d" "$gone $r0 $d $p1 $r1" "$d $r0 $gone $r1 $p1"; do
		# shellcheck disable=SC2086
		stream $order '[3,2,[0,0],1,0,null]' '[3,2,[0,1],1,0,null]' '[3,1,[0],2,0,null]' >in.lx
		lx-broadcast --of doc -i t --stats stats <in.lx >out.lx
		# its document has failed with it; what had left before keeps its outcome
		[[ $(verdicts out.lx | grep ^2) == *'2 0.1.0 3 torn' && ($order == "$d $r0"* || $(verdicts out.lx) == *'2 0.0.0 3 torn'*) ]] || fail "$(lx-cat --canonical out.lx)"
	done
}

@test "lx-broadcast: no such field, too large, no ancestor" {
	stream "$D0" "$P00" "$P01" "$C0" "$P10" '[1,0,[1],{"u":2},"b"]' "$C1" '[1,1,[2,0],{"p":5}]' '[3,1,[2],1,0,null]' >in.lx
	lx-broadcast -i t <in.lx >out.lx
	[[ $(verdicts out.lx) == $'1 1.0 2 no-field\n1 2.0 2 orphan' ]] || fail "$(verdicts out.lx)"
	[[ $(fields out.lx 0) == $'0 {"t":"A","u":1}\n1 {"u":2}' ]]
	head -c 3000 /dev/zero | tr '\0' x >big
	PLAN=${B_AB/\{\"domains/\{\"limits\":\{\"record\":3500,\"frame\":1000000,\"depth\":32,\"id\":16,\"fields\":4096\},\"domains}
	stream "[1,0,[0],{\"t\":\"$(<big)\"},\"a\"]" "$P01" "[1,1,[0,0],{\"p\":\"$(<big)\"}]" "$C0" | lx-broadcast -i t --max-record 3500 >out.lx
	[[ $(verdicts out.lx) == '1 0.0 2 oversize' ]]
	[[ $(lx-cat --canonical out.lx | jq -c 'select(.[1] == 1 and .[2] == [0,1]) | .[3].t | length') == 3000 ]]
}

@test "lx-broadcast: more than memory holds, thousands of parents, shuffled" {
	"$PY" - >rows <<'END'
import json, random
r, rows = random.Random(5), []
for d in range(3000):
    rows.append([1, 0, [d], {"t": "T%d " % d + "x" * r.choice([0, 10, 3000]), "u": d}, "k"])
    n = r.choice([0, 1, 2, 9])
    rows += [[1, 1, [d, i], {"p": "y" * r.choice([1, 900])}] for i in range(n)]
    rows.append([3, 1, [d], n, 0, None])
r.shuffle(rows)
print("\n".join(json.dumps(x) for x in rows))
END
	mapfile -t rows <rows
	printf '%s\n' "$B_AB" "${rows[@]}" | "$PY" "$ROOT/tests/lxpeer.py" make >in.lx
	lx-broadcast -i t <in.lx >all.lx
	lx-broadcast -i t --mem 1M --stats stats <in.lx >out.lx
	same_stream all.lx out.lx
	[[ $(jq '.waited > 1000 and .spilled_bytes > 1000000' stats) == true ]]
	[[ $(fields out.lx 1 | awk '{ split($1, id, "."); if (index($0, "\"t\":\"T" id[1] " ") == 0) bad++; n++ } END { print (n > 5000), bad + 0 }') == '1 0' ]]
	[[ -z $(verdicts out.lx) ]]
}

@test "lx-broadcast: the temporary file does not grow with what has passed through it" {
	"$PY" - >rows <<'END'
import json
n, late, page = 3200, 300, "y" * 10000
for d in range(n + late):
    if d < n:
        print(json.dumps([1, 1, [d, 0], {"p": page}]), json.dumps([3, 1, [d], 1, 0, None]), sep="\n")
    if d >= late:
        print(json.dumps([1, 0, [d - late], {"t": d - late, "u": 1}, "k"]))
END
	{ echo "$B_AB" && cat rows; } | "$PY" "$ROOT/tests/lxpeer.py" make | lx-batch -n 10 >in.lx
	lx-broadcast -i t <in.lx >all.lx
	# 3 MB lie there at any time, and 20 MB pass through it: a file of more than 14 MB is refused
	(trap '' XFSZ; ulimit -f 14000; lx-broadcast -i t --mem 1M --stats stats <in.lx | cat) >out.lx
	same_stream all.lx out.lx
	[[ $(jq '.spilled_bytes > 20000000' stats) == true ]] || fail "$(<stats)"
}

@test "lx-broadcast: what comes again when its fields are forgotten is left out" {
	stream "$D0" "$P00" "$P01" "$C0" "$P01" "$D1" "$P10" "$C1" "$P00" "$P01" >in.lx
	lx-broadcast -i t --stats stats <in.lx >out.lx
	[[ $(fields out.lx 1) == $'0.0 {"p":0,"t":"A"}\n0.1 {"p":1,"t":"A"}\n1.0 {"p":0,"t":"B"}' && -z $(verdicts out.lx) ]] || fail "$(lx-cat --canonical out.lx)"
	[[ $(jq -c '[.duplicates, .in.page.present, .out.page.present]' stats) == '[3,6,3]' ]] || fail "$(<stats)"
}

@test "lx-broadcast: memory does not grow with the parents that have passed" {
	sanitized || {
		local few many
		peak() { seq "$1" | lx-in --lines -d doc | lx-expand -d w -s delim:5 --keep | lx-broadcast -i data -o of --stats stats >/dev/null; jq .max_rss_kb stats; }
		few=$(peak 20000)
		many=$(peak 200000)
		((many < few + 2000)) || fail "$few KiB, then $many KiB"
	}
	# a complete family that comes again gets its fields again
	stream "$D0" "$P00" "$P01" "$C0" "$D0" "$P00" "$P01" "$C0" | lx-broadcast -i t >out.lx
	[[ $(fields out.lx 1 | sort | uniq -c | sed 's/^ *//') == $'2 0.0 {"p":0,"t":"A"}\n2 0.1 {"p":1,"t":"A"}' && -z $(verdicts out.lx) ]] || fail "$(lx-cat --canonical out.lx)"
}

@test "lx-broadcast: two runs in one input are two" {
	stream "$D0" "$P00" "$P01" "$C0" >one.lx
	PLAN=${B_AB/\{\"domains/\{\"run\":\"other\",\"domains} stream '[1,0,[0],{"t":"Z"},"a"]' "$P00" '[3,1,[0],1,0,null]' >two.lx
	cat one.lx two.lx | lx-broadcast -i t >out.lx
	[[ $(lx-cat --json out.lx | jq -c 'select(type == "array" and .[1] == 1 and .[0] == 1) | .[3].t' | tr -d '\n') == '"A""A""Z"' ]]
	cat one.lx one.lx | lx-broadcast -i t >joined.lx
	canonical joined.lx >/dev/null
	# each with its own sums
	stream "$P00" "$P01" "$D0" "$C0" >late.lx
	cat late.lx two.lx | lx-broadcast -i t --stats sums >out.lx
	[[ $(jq -c '[.run, .waited]' sums) == $'["peer",2]\n["other",0]' ]] || fail "$(<sums)"
}

@test "lx-broadcast: wrong options and shapes" {
	stream "$D0" "$P00" "$P01" "$C0" >in.lx
	exits 2 lx-broadcast <in.lx && says -i
	exits 2 lx-broadcast -i t -d doc <in.lx && says root doc
	exits 2 lx-broadcast -i t -d page --of page <in.lx && says page 'not above'
	exits 2 lx-broadcast -i t --of none <in.lx && says none
	exits 2 lx-broadcast -i nothing <in.lx && says nothing
	exits 2 lx-broadcast -i t,u -o x <in.lx && says -o
	exits 2 lx-broadcast -i t,t <in.lx && says twice
	exits 2 lx-broadcast -i t more <in.lx && says more
	exits 2 lx-broadcast -i t --tmpdir "" <in.lx
	exits 5 lx-broadcast -i t --mem 1M --tmpdir /none < <(printf '%s\n' "$B_AB" "[1,0,[0],{\"t\":\"$(head -c 2000000 /dev/zero | tr '\0' x)\"},\"a\"]" | "$PY" "$ROOT/tests/lxpeer.py" make)
	says tmpdir
}

@test "lx-broadcast: the standard checks of every stage" {
	stream >empty.lx
	stream "$P00" "$D0" "$P01" "$C0" >in.lx
	stage_empty empty.lx lx-broadcast -i t
	stage_cut in.lx lx-broadcast -i t
	stage_full in.lx lx-broadcast -i t
	stage_gone in.lx lx-broadcast -i t
	lx-broadcast -i t <in.lx >a.lx
	dd if=in.lx bs=1 2>/dev/null | lx-broadcast -i t >b.lx
	same_stream a.lx b.lx
}
