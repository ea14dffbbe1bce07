# The call scheduler with real workers, for tests/bench/run. A worker sleeps once a batch, to an absolute deadline.
# "ideal" is the sum of the sleeps over the number of workers. Nothing is fed before every worker is ready; how long
# that took is said apart. Loads: page counts of tests/data/pagecounts.tsv, documents shuffled with a fixed seed.
# shellcheck shell=bash disable=SC2154

# docs FILTER ORDER [POISON]: JSON lines, a document each, with a string a page. FILTER: half (the 99 longest and all of
# at most 23 pages) or whole. ORDER: shuffled or longest. POISON: the first page of the 99 longest fails its parent.
docs() {
	awk -v filter="$1" -v order="$2" -v poison="${3-}" -v scale="$SCALE" -F'\t' '
	/^[0-9]/ && NF == 2 { for (i = 0; i < $2; i++) pages[n++] = $1 }
	function swap(a, b, t) { t = pages[a]; pages[a] = pages[b]; pages[b] = t }
	END {
		m = 0
		for (i = 0; i < int(n / 2); i++) swap(i, n - 1 - i) # the file is in ascending order
		for (i = 0; i < n; i++)
			if (filter == "whole" || i < 99 || pages[i] <= 23) {
				bad[m] = poison && i < 99; list[m++] = pages[i]
			}
		seed = 12345
		for (i = m - 1; i > 0 && order == "shuffled"; i--) {
			seed = (seed * 16807) % 2147483647; j = seed % (i + 1)
			t = list[i]; list[i] = list[j]; list[j] = t
			t = bad[i]; bad[i] = bad[j]; bad[j] = t
		}
		m = int(m * scale); if (m < 1) m = 1
		for (i = 0; i < m; i++) {
			s = bad[i] ? "\"fail-parent\"" : "\"p\""
			for (k = 1; k < list[i]; k++) s = s ",\"p\""
			print "{\"data\":[" s "]}"
		}
	}' "$ROOT/tests/data/pagecounts.tsv"
}

# load JSONL WORKERS BATCH US [OPTION...]: one run. Its wall time in $MS (milliseconds), start-up in $START, the rest in stats.
# On this machine, or where SPREAD says, an lx-batch with whatever makes it have so many workers.
load() {
	local in=$1 workers=$2 n=$3 us=$4 t pid
	local -a spread=("${SPREAD[@]:-lx-batch}")
	shift 4
	[[ -v SPREAD ]] || spread+=(-j "$workers")
	rm -f ready gate stats
	mkfifo gate
	: >ready
	lx-in --run b --jsonl -d doc <gate | lx-expand -d page -i data |
		"${spread[@]}" -q -n "$n" --stats stats "$@" -- "$B/tool/worker" -s "$us" -a "$PWD/ready" >/dev/null &
	pid=$!
	exec 7>gate
	while (($(stat -c %s ready) < workers)); do
		kill -0 $pid 2>/dev/null || { echo "failed: $in" >&2; exit 2; }
		sleep 0.01
	done
	t=$EPOCHREALTIME
	cat "$in" >&7
	exec 7>&-
	wait $pid || { echo "failed: $in" >&2; exit 2; }
	MS=$(calc "($EPOCHREALTIME - $t) * 1000" 0)
	START=$(stat_of stats ready_ms)
}

pages() { grep -o '"[pf]' "$1" | wc -l; }
good() { grep -v fail-parent "$1" | grep -o '"p' | wc -l; }
fill() { calc "$(stat_of stats batch_items) / $(stat_of stats batches) / $1" 3; }

bench_load() {
	local ideal
	docs half shuffled >half.jsonl
	load half.jsonl 4 48 1000
	ideal=$(calc "$(pages half.jsonl) / 4" 0)
	report load "45,507 x 1 ms, 4 workers: $MS ms, $(calc "$MS / $ideal" 3) of ideal (start-up $START ms)" "<= 1.01" "$MS <= 1.01 * $ideal"
	report load "fill $(fill 48)" ">= 0.99" "$(fill 48) >= 0.99"
}

bench_poison() {
	local ideal order
	docs half shuffled poison >poison.jsonl
	ideal=$(calc "$(good poison.jsonl) / 4" 0)
	for order in probe fifo; do
		load poison.jsonl 4 48 1000 --order $order
		report poison "99 longest fail, --order $order: $MS ms, $(calc "$MS / $ideal" 3) of the healthy parents' ideal" \
			"$([[ $order == fifo ]] && echo none || echo '<= 1.05')" "\"$order\" == \"fifo\" || $MS <= 1.05 * $ideal"
	done
}

bench_doomed() {
	local what never all
	docs half shuffled poison >shuffled.jsonl
	docs half longest poison >longest.jsonl
	for what in 'shuffled 65536' 'longest 65536' 'shuffled 4096'; do
		load "${what% *}.jsonl" 32 64 1000 --queue "${what#* }"
		never=$(stat_of stats doomed.never_sent) all=$(calc "$(stat_of stats doomed.received) - $(stat_of stats doomed.failed)" 0)
		report doomed "32 workers, batch 64, $what: $never of $all doomed siblings never sent, $(calc "100 * $never / $all" 1) %" \
			"$([[ $what == 'shuffled 65536' ]] && echo '>= 98 %' || echo none)" "\"$what\" != \"shuffled 65536\" || $never >= 0.98 * $all"
	done
}

bench_corpus() {
	local ideal
	docs whole shuffled >whole.jsonl
	load whole.jsonl 32 8 10000
	ideal=$(calc "$(pages whole.jsonl) * 10 / 32" 0)
	report corpus "174,744 x 10 ms, 32 workers, batch 8: $MS ms, $(calc "$MS / $ideal" 3) of ideal" "<= 1.02" "$MS <= 1.02 * $ideal"
}

bench_workers() {
	local n least each
	each=$(num 320)
	for n in 4 64 512; do
		least=$([[ $n == 512 ]] && echo 0.95 || echo 0.99)
		awk -v n=$((n * each / 40)) 'BEGIN { s = "\"p\""; for (i = 1; i < 40; i++) s = s ",\"p\""; for (i = 0; i < n; i++) print "{\"data\":[" s "]}" }' >const.jsonl
		load const.jsonl $n 8 10000
		local ideal
		ideal=$(calc "$(pages const.jsonl) * 10 / $n" 0)
		report workers "$n workers, batch 8 x 10 ms: efficiency $(calc "$ideal / $MS" 3) (start-up $START ms)" ">= $least" "$ideal / $MS >= $least"
	done
}

bench_child() {
	local n us
	n=$(num 3000000)
	seq "$n" | lx-in --run b --lines -d n --compress raw >many.lx
	lx-batch -n 64 --stats stats -- lx-cat <many.lx | cat >/dev/null
	us=$(calc "$(stat_of stats cpu_ms) * 1000 / $n")
	report child "$us us of CPU in lx-batch a child, batch 64, everything included" "<= 1 us" "$us <= 1"
	rm many.lx
}
