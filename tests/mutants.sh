#!/bin/bash
# tests/mutants.sh [SCHEDULES]: break the scheduler's rules one at a time and see that the simulator notices.
#
# Each mutant below is one changed line of lib/sched*.c: NAME @ FILE @ OLD @ NEW. It is built and run over
# SCHEDULES seeds (default 6000). A mutant that no schedule catches, does not build, or whose OLD is no
# longer in the file is named, and the exit status is 1. Prints `N mutants, N caught`.
set -u
cd "$(dirname "$0")/.." || exit
export SCHEDULES=${1:-6000} TMP
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT

mutants() {
	cat <<'END'
admission @ sched-tree.c @ n->barred = parent->barred; @ n->barred = LX_PRESENT;
dispatch @ sched-tree.c @ while (n->unsent) { @ while (false) {
commit @ sched.c @ if (n->barred && o != LX_FAILED) { @ if (false) {
own failure stays @ sched.c @ if (n->barred && o != LX_FAILED) { @ if (n->barred) {
wide anchor @ sched.c @ while (up->depth > anchor_n) @ while (up->depth > anchor_n + 1)
failed close bars @ sched.c @ if (o != LX_PRESENT) @ if (o == LX_DROPPED)
tolerance @ sched-tree.c @ return n->bad > lx_tolerance_of(t, n->count) ? @ return n->bad >= lx_tolerance_of(t, n->count) ?
percent at close @ sched.c @ if (n->bad && !n->barred && s->conf @ if (false && s->conf
doom is told @ sched-tree.c @ if (!told && tell(s, n) < 0) @ if (told && tell(s, n) < 0)
probe releases @ sched.c @ if (it->probe && !n->barred) @ if (false)
siblings wait @ sched-queue.c @ 		hold(s, it); @ 		prefer(s, it);
fewest held @ sched-queue.c @ n->wait.n < HELD_CLASSES ? n->wait.n : HELD_CLASSES; @ n->wait.n > 0;
open parents last @ sched-queue.c @ return held && !n->counted ? @ return false ?
released first @ sched-queue.c @ return a ? a : b; @ return b ? b : a;
linger too short @ sched-queue.c @ return from + s->conf.linger_ns; @ return from;
linger too long @ sched-queue.c @ return from + s->conf.linger_ns; @ return from + 2 * s->conf.linger_ns + 1;
idle worker gets siblings @ sched-queue.c @ if (!full && !b->full) @ if (false)
full for room only @ sched.c @ sched_form(s, s->free.head, &fail) @ sched_form(s, w, &fail)
count limit @ sched-queue.c @ if (n >= s->conf.max_items) @ if (n > s->conf.max_items)
bytes limit @ sched-queue.c @ it->bytes <= s->conf.max_bytes - bytes @ true
cost limit @ sched-queue.c @ it->cost <= s->conf.max_cost - cost @ true
one bucket @ sched-queue.c @ if (b->items.n && it->bucket != b->bucket) @ if (false)
fixed leaves holes @ sched-queue.c @ b->places++; @ b->places += !it->node->barred;
fixed ends @ sched.c @ if (s->conf.order == LX_ORDER_FIXED) 		sched_fixed_close(s); @ ;
depth @ sched-pool.c @ else if (n < depth(s, w)) @ else if (n <= depth(s, w))
nothing behind a suspect @ sched-pool.c @ return w->batches.head && w->batches.head->recovered; @ return false;
suspect alone @ sched-pool.c @ while (w && w->batches.n) @ while (false)
halves @ sched-pool.c @ uint64_t keep = (b->items.n + 1) / 2; @ uint64_t keep = b->items.n - 1;
alone N+1 times @ sched-pool.c @ it->alone > s->conf.retries @ it->alone >= s->conf.retries
on two workers @ sched-pool.c @ (it->two || !others_live(s, w)) @ true
not twice on one worker @ sched-pool.c @ b->not_on = w->number; @ b->not_on = -1;
alone means sent alone @ sched-pool.c @ w->batches.n == 1 && w->batches.head->sent_items == 1 @ w->batches.n == 1
host charges nobody @ sched-pool.c @ if (loss == LX_LOSS_HOST || loss == LX_LOSS_LEFT) { @ if (loss == LX_LOSS_LEFT) {
time-out blames what is late @ sched-pool.c @ if (running && many && loss @ if (false && loss
doomed while at a lost worker @ sched-pool.c @ 		if (!n->barred) { @ 		if (true) {
charge counts as failure @ sched-pool.c @ if (sched_bad(s, n, it->ordinal) < 0) @ if (false)
charged probe releases @ sched-pool.c @ if (probe && !n->barred) @ if (false)
failed starts @ sched-pool.c @ w->failed_starts >= s->conf.max_starts @ w->failed_starts > s->conf.max_starts
strikes end with an answer @ sched.c @ w->strikes = w->flaps = 0; @ w->flaps = 0;
back-off doubles @ sched-pool.c @ ns *= 2; @ break;
no storm of starts @ sched-pool.c @ (busy && loss != LX_LOSS_HOST ? 0 : backoff(s, w)) @ 0
time per batch @ sched-pool.c @ 		if (b->run_ns == LX_SCHED_NEVER) @ 		if (true)
silence @ sched-pool.c @ #define BEATS 4 @ #define BEATS 5
leaving worker stays away @ sched-pool.c @ w->attached || w->leaving) { @ w->attached) {
killed worker still counts @ sched.c @ && w->state != LX_W_KILLED) { @ ) {
answered twice @ sched.c @ return LX_ANS_TWICE; @ return LX_ANS_STRANGER;
last hope @ sched.c @ if (!s->usable && s->n_workers @ if (false && s->n_workers
one loss is one @ sched-pool.c @ 	s->charged_now = false; @ 	;
charges in a row @ sched.c @ s->charge_row = 0; @ ;
queue is bounded @ sched.c @ >= s->conf.max_ready || @ > s->conf.max_ready ||
parents are forgotten @ sched-tree.c @ while (s->idle_n > s->conf.max_parents) { @ while (s->idle_n > s->conf.max_parents + 9) {
joining has its time @ sched-pool.c @ return s->conf.start_timeout_ns ? later @ return s->conf.start_timeout_ns && !w->attached ? later
one that joined and is gone @ sched-pool.c @ w->attached || w->leaving) { @ w->leaving) {
numbers are used again @ sched-pool.c @ s->workers[i]->state == LX_W_GONE && s->workers[i]->attached @ s->workers[i]->attached
none joins: gives up @ sched.c @ if (s->now >= alone_until(s)) @ if (false)
none joins: not before its time @ sched.c @ s->alone_ns + s->conf.join_ns : LX_SCHED_NEVER; @ s->alone_ns + s->conf.join_ns / 2 : LX_SCHED_NEVER;
none joins: a new one counts anew @ sched.c @ if (s->usable || !(s->held @ if (!(s->held
none joins: nothing to do is no wait @ sched.c @ (!s->was_ready && !s->ended) @ true
accounts: left before @ sched-tree.c @ s->stats.doom.left += n->t.left; @ ;
accounts: sent once @ sched-tree.c @ if (it->sent_before) @ if (false)
END
}

# One mutant in a process of its own.
try() {
	local name file old new dir o objects=()
	IFS='@' read -r name file old new <<<"$1"
	name=${name% } file=${file# } file=${file% } old=${old# } old=${old% } new=${new# }
	dir=$TMP/${name//[^a-z]/-}
	mkdir -p "$dir"
	OLD=$old NEW=$new perl -0pe 'BEGIN { $o = quotemeta $ENV{OLD}; $o =~ s/(\\[ \t])+/\\s+/g } $n += s/$o/$ENV{NEW}/; END { $? = 1 unless $n }' \
		"lib/$file" >"$dir/$file" || { echo "STALE $name: no longer in lib/$file"; return; }
	$CC -std=c11 -D_GNU_SOURCE -O1 -w -Ilib -c -o "$dir/m.o" "$dir/$file" || { echo "BROKEN $name"; return; }
	for o in "$TMP"/sched*.o; do [[ $o == */${file%.c}.o ]] || objects+=("$o"); done
	$CC -o "$dir/sim" "$TMP/sim.o" "$dir/m.o" "${objects[@]}" "$TMP/rest.a" || { echo "BROKEN $name"; return; }
	if timeout 20 "$dir/sim" "$SCHEDULES" >"$dir/out" 2>&1; then
		echo "MISSED $name"
	else
		echo "caught $name: $(sed -n 's/^# seed //p;T;q' "$dir/out")"
	fi
	rm -rf "$dir"
}
export -f try
export CC=${CC:-cc}

for f in lib/sched*.c tests/unit/sim_sched.c; do
	$CC -std=c11 -D_GNU_SOURCE -O1 -w -Ilib -c -o "$TMP/$(basename "${f/sim_sched/sim}" .c).o" "$f" || exit
done
read -ra FLAGS < <(pkg-config --cflags msgpack-c 2>/dev/null || pkg-config --cflags msgpack)
for f in lineage rec value buf err num opt; do
	$CC -std=c11 -D_GNU_SOURCE -O1 -w -Ilib "${FLAGS[@]}" -c -o "$TMP/$f.part.o" "lib/$f.c" || exit
done
ar rc "$TMP/rest.a" "$TMP"/*.part.o
rm -f "$TMP"/*.part.o

if ! $CC -o "$TMP/sim" "$TMP"/sim.o "$TMP"/sched*.o "$TMP/rest.a" || ! timeout 60 "$TMP/sim" "$SCHEDULES" >"$TMP/out" 2>&1; then
	cat "$TMP/out"
	echo "the scheduler itself does not pass"
	exit 1
fi
# shellcheck disable=SC2016
mutants | tr '\n' '\0' | xargs -0 -P "$(nproc)" -I{} bash -c 'try "$1"' _ {} >"$TMP/results"
grep -v ^caught "$TMP/results"
[[ ${VERBOSE-} ]] && grep ^caught "$TMP/results"
n=$(mutants | wc -l) caught=$(grep -c ^caught "$TMP/results")
echo "$n mutants, $caught caught"
((n == caught))
