# lx-batch --spool, jobs by GNU parallel, lx-cat --follow: every record exactly once, whatever is killed.
load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export HOME=$PWD # parallel keeps things there
	unset PARALLEL
}

# src [DOCS]: a run r1 of documents with three lines each.
src() {
	local i
	for ((i = 0; i < ${1:-10}; i++)); do echo "d$i-a d$i-b d$i-c"; done | lx-in --run r1 --lines -d doc | lx-expand -d line -s delim:' '
}
upper() { lx-map -o up:str "$@" -- tr a-z A-Z; }
# job NAME: what a launcher would start.
job() { upper --from "$1" --to "w/out/${1##*/}"; }
all_jobs() { local p; for p in w/in/*.lx; do job "$p" || return; done; }
collect() { lx-cat --follow w/out </dev/null; }
inodes() { stat -c '%n %i %Y' w/in/* w/out/*; }

@test "lx-batch --spool: a whole part a batch, and the results together are what a pipe gives" {
	src >in.lx
	lx-batch -n 4 --spool w <in.lx >names
	[[ $(<names) == "$(ls w/in/*.lx)" && $(wc -l <names) == 8 ]]
	run lx-cat --json w/in/r1.000001.lx
	assert_line --partial '"part":1'
	[[ $(grep -c '^\[1,1,' <<<"$output") == 4 && $(grep -c '^\[' <<<"$output") == 4 ]]
	all_jobs
	collect >out.lx
	upper <in.lx >want.lx
	same_stream want.lx out.lx
}

@test "lx-batch --spool: names and bytes are the same for the same run, and a rerun writes nothing" {
	src | lx-batch -n 4 --spool w >names
	inodes >before
	src | lx-batch -n 4 --spool w --stats st >again
	cmp names again
	inodes | cmp - before
	jq -e '.batches == 0 and .files == 0 and .known_batches == 8 and .known == 50' st
	mv w v
	src | lx-batch -n 4 --spool w >names2
	cmp names names2
	diff -r v w
}

@test "lx-batch --spool: prints a name while the source still runs" {
	mkfifo pipe
	bg sh -c 'lx-batch -n 2 --spool w <pipe >names'
	exec 7>pipe
	src >in.lx
	head -c -30 in.lx >&7
	wait_for 20 test -s names
	lx-cat --json "$(head -1 names)" 2>/dev/null | grep -q '"part":1'
	tail -c 30 in.lx >&7
	exec 7>&-
	wait_for 20 test -e w/out/r1.last.lx
}

@test "lx-batch --spool: after kill -9 a rerun in another order writes only what is missing, each record once" {
	half() { # 0|1
		local k
		for ((k = $1 * 20; k < $1 * 20 + 20; k++)); do echo "d$k-a d$k-b d$k-c"; done |
			lx-in --run r1 --lines --first $(($1 * 20)) -d doc | lx-expand -d line -s delim:' '
	}
	half 0 >a.lx
	half 1 >b.lx
	mkfifo pipe
	bg sh -c 'exec lx-batch -n 4 --spool w <pipe >names'
	exec 7>pipe
	cat a.lx >&7
	wait_for 20 test -e w/in/r1.000014.lx
	kill -KILL "$PID"
	exec 7>&-
	wait "$PID" || true
	[[ ! -e w/out/r1.last.lx && -z $(find w -name '*.part') ]]
	inodes >before
	cat b.lx a.lx | lx-batch -n 7 --spool w >names2
	inodes >after
	[[ $(grep -cFxf before after) == $(wc -l <before) ]]
	[[ $(sort -u names2 | wc -l) == $(wc -l <names2) ]]
	all_jobs
	collect >out.lx
	cat a.lx b.lx | upper >want.lx
	same_stream want.lx out.lx
}

@test "lx-batch --spool: another run, another input, changed items and a second writer are refused" {
	src | lx-batch -n 4 --spool w >names
	inodes >before
	seq 3 | lx-in --run r2 --lines >other.lx
	exits 2 lx-batch --spool w <other.lx
	says r1.000000.lx r2
	src 9 >less.lx
	exits 2 lx-batch -n 4 --spool w <less.lx
	says 'came again'
	src 11 >more.lx
	exits 2 lx-batch -n 4 --spool w <more.lx
	says 'complete'
	src | lx-map -o data:str -- rev >changed.lx
	exits 2 lx-batch -n 4 --spool w <changed.lx
	says 'other fields'
	inodes | cmp - before
	src >in.lx
	exec 8<w
	flock -x 8
	exits 2 lx-batch -n 4 --spool w <in.lx
	says 'another lx-batch'
	exits 2 lx-batch --spool w --compress raw <in.lx
	exits 2 lx-batch --spool w -- cat <in.lx
}

@test "lx-batch --spool: a cut part is named, removed it is written again, a result stands for it" {
	src | lx-batch -n 4 --spool w >names
	truncate -s -20 w/in/r1.000003.lx
	src >in.lx
	exits 3 lx-batch -n 4 --spool w <in.lx
	says w/in/r1.000003.lx remove
	rm w/in/r1.000003.lx
	src | lx-batch -n 4 --spool w >names2
	sort names2 | cmp - names
	all_jobs
	rm w/in/r1.000005.lx
	src | lx-batch -n 4 --spool w >names3
	[[ $(wc -l <names3) == 7 && ! -e w/in/r1.000005.lx ]]
	collect >out.lx
	upper <in.lx >want.lx
	same_stream want.lx out.lx
}

@test "lx-batch --spool: a full disk ends it, with room it goes on" {
	[[ $(id -u) == 0 ]] || fail 'needs a small file system of its own: run it as root'
	mkdir w
	mount -t tmpfs -o size=128k lx w
	src 400 >in.lx
	local got=0
	lx-batch -n 1 --spool w <in.lx >names 2>err || got=$?
	mount -o remount,size=64m w || { umount w; false; }
	[[ $got == 5 && $(<err) == *space* ]] || { umount w; fail "exit $got: $(<err)"; }
	lx-batch -n 50 --spool w <in.lx >names
	lx-cat w/in/*.lx w/out/*.lx >out.lx
	umount w
	same_stream in.lx out.lx
}

@test "stages: a part is answered by that part, and they leave it to the reader of all to miss one" {
	src | lx-batch -n 4 --spool w >names
	lx-map -o up:str -- tr a-z A-Z <w/in/r1.000002.lx | lx-filter 'up!=D' | lx-batch -n 2 | lx-batch -j 2 -- lx-filter 'up!=E' >p.lx
	[[ $(lx-cat --json p.lx 2>/dev/null | head -1 | jq .begin.part) == 2 ]]
	lx-filter -d doc 'data!=x' <w/out/r1.last.lx 2>/dev/null >last.lx || lx-fail -d doc --id 999 -q <w/out/r1.last.lx >last.lx
	[[ $(lx-cat --json last.lx 2>/dev/null | tail -1 | jq .end.parts) == 11 ]]
	exits 3 lx-gather <p.lx
	says 'part 0 of run r1 is missing'
	cat w/in/*.lx | upper >up.lx
	[[ $(lx-cat --json up.lx 2>/dev/null | grep -c '"part":') == 8 ]]
}

@test "lx-cat --follow: takes no half result, no other run's, and names what is missing" {
	src | lx-batch -n 4 --spool w >names
	all_jobs
	truncate -s -9 w/out/r1.000002.lx
	seq 3 | lx-in --run r2 --lines | lx-batch --spool v >v.names
	cp v/in/r2.000001.lx w/out/
	exits 3 collect
	grep -q 'not taken: w/out/r1.000002.lx.*truncated' err
	grep -q 'not taken: w/out/r2.000001.lx.*run r2' err
	grep -q 'part 2 of run r1 is missing' err
	job w/in/r1.000002.lx
	collect >out.lx
	src | upper >want.lx
	same_stream want.lx out.lx
}

@test "lx-cat --follow: results count as they appear, and twice done is once" {
	src | lx-batch -n 4 --spool w >names
	mkfifo alive
	bg sh -c 'exec lx-cat --follow w/out <alive >out.lx 2>err'
	exec 7>alive
	job w/in/r1.000001.lx
	wait_for 20 grep -q . out.lx
	head -c 50 w/in/r1.000002.lx >w/out/r1.000002.lx # half of something
	all_jobs
	cp w/out/r1.000003.lx w/out/again.lx
	wait_for 20 gone "$PID"
	exec 7>&-
	src | upper >want.lx
	same_stream want.lx out.lx
}

@test "jobs: killed, or on a full disk, leave no result and nothing half" {
	[[ $(id -u) == 0 ]] || fail 'needs a small file system of its own: run it as root'
	src | lx-batch -n 30 --spool w >names
	bg lx-map --from w/in/r1.000001.lx --to w/out/r1.000001.lx -- sh -c 'touch busy; sleep 60'
	wait_for 20 test -e busy
	kill -KILL "$PID"
	wait "$PID" || true
	pkill -KILL -g "$PID" || true
	[[ -z $(find w/out -name '*r1.000001*') ]]
	mkdir full
	mount -t tmpfs -o size=16k lx full
	local got=0
	lx-map --from w/in/r1.000001.lx --to full/r1.000001.lx -o x:bin -- head -c 4000 /dev/urandom 2>err || got=$?
	ls -A full >left
	umount full
	[[ $got == 5 && ! -s left && $(<err) == *space* ]] || fail "exit $got: $(<err) $(<left)"
	exits 3 collect
	says 'part 1 of run r1 is missing'
	job w/in/r1.000001.lx
	collect >out.lx
	src | upper >want.lx
	same_stream want.lx out.lx
}

@test "lx-cat --follow: killed with the gather behind it, a second one gives the same" {
	src | lx-batch -n 4 --spool w >names
	mkfifo alive
	job w/in/r1.000001.lx
	bg sh -c 'lx-cat --follow w/out <alive | lx-gather -f up >out.lx'
	exec 7>alive
	wait_for 20 test -s out.lx
	kill -KILL -- "-$PID"
	exec 7>&-
	wait "$PID" || true
	all_jobs
	collect | lx-gather -f up >out.lx
	src | upper | lx-gather -f up >want.lx
	same_stream want.lx out.lx
}

@test "GNU parallel: 4,000 records with odd bytes over 8 jobs, killed in the middle and run again: each exactly once" {
	"$PY" - >in.jsonl <<-'PYTHON'
		import json
		odd = ["\u0028\u00b5\u002f\u00fd", "a\nb\n", "x\0y\0", "Q*M\u0018", "plain"]
		for i in range(400):
		    print(json.dumps({"data": [odd[(i + j) % 5] + str(i) for j in range(10)]}))
	PYTHON
	printf '%s\n' 'lx-in --run r1 --jsonl -d doc <in.jsonl | lx-expand -d line -i data -j 2' >source.sh
	cat >recipe.sh <<-'RECIPE'
		sh source.sh | lx-batch -n 100 --spool w |
			parallel -j 8 --joblog log --resume-failed --retries 2 \
				'echo {} >>ran; [ ! -e slow ] || sleep 0.3; lx-map --from {} --to w/out/{/} -o n:int -- wc -c' |
			lx-cat --follow w/out >out.lx
	RECIPE
	touch slow
	bg bash recipe.sh
	wait_for 60 eval 'ls w/out/r1.0000[01][1-8].lx 2>/dev/null | grep -q .'
	kill -KILL -- "-$PID"
	wait "$PID" || true
	rm slow
	wait_for 60 eval '! pgrep -f "[/]w/out/r1" >/dev/null'
	: >ran
	ls w/out >had
	bash recipe.sh 2>err || fail "$(<err)"
	sh source.sh | lx-map -j 2 -o n:int -- wc -c >want.lx
	same_stream want.lx out.lx
	[[ $(lx-cat --canonical out.lx | grep -c '^\[1,1,') == 4000 ]]
	bash recipe.sh 2>err || fail "$(<err)"
	lx-cat --canonical out.lx | cmp - <(lx-cat --canonical want.lx)
	[[ $(sort ran | uniq -d | wc -l) == 0 ]]
}

@test "GNU parallel: a job that fails is tried again, one that fails for good is missing until it is given up" {
	src >in.lx
	lx-batch -n 4 --spool w <in.lx >names
	parallel --retries 2 'case {} in *3.lx) exit 9 ;; *5.lx) [ -e tried ] || { touch tried; exit 1; } ;; esac
		lx-map --from {} --to w/out/{/} -o up:str -- tr a-z A-Z' <names 2>err || true
	exits 3 collect
	says 'part 3 of run r1 is missing'
	exits 3 bash -c 'lx-cat -q --follow w/out </dev/null | lx-gather -f up | lx-out'
	[[ -s out ]] # those of whose lines all are there
	lx-fail --all -t gave-up --from w/in/r1.000003.lx --to w/out/r1.000003.lx never worked
	collect >all.lx
	lx-gather -f up <all.lx >g.lx
	lx-out --max-failed 100% --failures bad <g.lx >good
	[[ $(($(wc -l <bad) + $(wc -l <good))) == 10 ]]
	jq -e '.lx.cause.type == "gave-up"' bad
}

@test "parallel-words.sh: every PDF has its verdict, on a second call nothing is done again" {
	run "$ROOT/examples/parallel-words.sh" -o o -n 8 "$DATA" 3>&-
	assert_success
	lx-in -0 -d doc < <(find "$DATA" -name '*.pdf' -print0 | sort -z) | lx-expand -d page -s 'delim:\f' -- pdftotext -q {path} - |
		lx-map -o words:int --drop data -- wc -w | lx-gather -d page | lx-out -q --ordered --max-failed 100% >want
	jq -c 'del(.path, .lx)' want >want.json
	jq -c 'del(.path, .lx)' o/words.jsonl | cmp - want.json
	[[ $(wc -l <o/failures.jsonl) == 2 ]]
	(cd o/lx-*/out && stat -c '%n %i' -- *) >before
	run "$ROOT/examples/parallel-words.sh" -o o -n 8 "$DATA" 3>&-
	assert_success
	(cd o/lx-*/out && stat -c '%n %i' -- *) | cmp - before
	run "$ROOT/examples/parallel-words.sh" 3>&-
	assert_failure 2
}

@test "parallel-words.sh: a batch that fails on every attempt is named, and given up when asked to" {
	mkdir bin
	printf '%s\n' '#!/bin/sh' 'case "$*" in *000002.lx*) exit 9 ;; esac' 'exec "$REAL" "$@"' >bin/lx-map
	chmod +x bin/lx-map
	export REAL=$B/bin/lx-map PATH=$PWD/bin:$PATH
	run "$ROOT/examples/parallel-words.sh" -o o -n 8 "$DATA" 3>&-
	assert_failure 3
	assert_output --partial 'part 2 of run'
	[[ ! -e o/words.jsonl ]]
	run "$ROOT/examples/parallel-words.sh" -o o -n 8 -g "$DATA" 3>&-
	assert_success
	[[ $(cat o/words.jsonl o/failures.jsonl | wc -l) == 9 ]]
	jq -se 'any(.lx.cause.type == "gave-up")' o/failures.jsonl
}

@test "launcher-words.sh: any launcher will do, what failed is tried again, and a second call goes on" {
	printf '%s\n' '#!/bin/bash' 'echo "$*" >>jobs' '[[ -e fail || $* != *000002.lx* ]] || { touch fail; exit 1; }' 'exec "$@"' >launch
	chmod +x launch
	export LAUNCH=./launch
	run "$ROOT/examples/launcher-words.sh" -o o -n 8 -j 2 "$DATA" 3>&-
	assert_success
	[[ $(cat o/words.jsonl o/failures.jsonl | wc -l) == 9 && $(grep -c 000002.lx jobs) == 2 ]]
	rm jobs o/spool/out/words.000003.lx
	run "$ROOT/examples/launcher-words.sh" -o o -n 8 -j 2 "$DATA" 3>&-
	assert_success
	[[ $(wc -l <jobs) == 1 ]]
}

@test "make: every batch is a target, an interrupted job goes on, a changed step repeats what depends on it" {
	cp -r "$ROOT/examples/make" steps
	again() { make -j2 -f steps/Makefile FOLDER="$DATA" OUT=o "$@" 3>&-; }
	again >all
	local n
	n=$(ls o/spool/in | wc -l)
	[[ $(grep -c '^lx-map.*awk' all) == "$n" && $(grep -c '^lx-map.*sed' all) == "$n" ]]
	[[ $(cat o/words.jsonl o/failures.jsonl | wc -l) == 9 ]]
	cp o/words.jsonl want
	again >nothing
	! grep lx- nothing
	rm o/count/job.000002.lx o/lower/job.000003.lx o/words.jsonl # as if it had been ended before those
	rm o/count/job.000003.lx
	again >some
	[[ $(grep -c '^lx-map.*awk' some) == 2 && $(grep -c '^lx-map.*sed' some) == 1 ]]
	cmp want o/words.jsonl
	touch steps/count.awk
	again >count
	[[ $(grep -c '^lx-map.*awk' count) == "$n" ]] && ! grep 'lx-map.*sed' count
	touch steps/lower.sed
	again >lower
	[[ $(grep -c '^lx-map.*sed' lower) == "$n" && $(grep -c '^lx-map.*awk' lower) == "$n" ]]
	cmp want o/words.jsonl
}
