#!/bin/bash
# examples/launcher-words.sh [-o DIR] [-n COUNT] [-j JOBS] FOLDER...: the words on every page of the PDFs below the folders,
# a job for each batch of COUNT pages (default 64), at most JOBS (default 4) at a time, through a launcher.
#
# LAUNCH is the launcher: what goes before the command of a job, by default `srun -n1 -N1 --exclusive`. DIR (default
# launcher-words.out) has to be the same directory wherever jobs run. It gets words.jsonl and failures.jsonl, and the
# spool. Ended at any moment, the same command goes on. A job that fails is started three times.
# Exits 0 when every PDF has its verdict, 3 when batches are missing. Needs poppler-utils.
set -euo pipefail

out=launcher-words.out count=64 jobs=4
while getopts o:n:j: o; do
	case $o in
	o) out=$OPTARG ;;
	n) count=$OPTARG ;;
	j) jobs=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
if (($# == 0)); then
	echo 'usage: launcher-words.sh [-o DIR] [-n COUNT] [-j JOBS] FOLDER...' >&2
	exit 2
fi
read -ra launch <<<"${LAUNCH-srun -n1 -N1 --exclusive}"
mkdir -p "$out"

batches() {
	find "$@" -name '*.pdf' -print0 | sort -z |
		lx-in -0 -d doc --run words |
		lx-expand -d page -s 'delim:\f' -- pdftotext -q {path} - |
		lx-batch -n "$count" --spool "$out/spool"
}

# BATCH: a result, or after three times none; then lx-cat names it.
job() {
	local result=$out/spool/out/${1##*/} try
	for try in 1 2 3; do
		"${launch[@]}" lx-map -o words:int --drop data --from "$1" --to "$result" -- wc -w </dev/null && return
	done
	return 1
}

work() {
	local batch
	while IFS= read -r batch; do
		[[ ! -e $out/spool/out/${batch##*/} ]] || continue
		while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
		job "$batch" &
	done
	wait
}

batches "$@" | work | lx-cat --follow "$out/spool/out" | lx-gather -d page |
	lx-out -q --ordered --to "$out/words.jsonl" --failures "$out/failures.jsonl" --max-failed 100%
