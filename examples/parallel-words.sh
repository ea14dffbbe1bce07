#!/bin/bash
# examples/parallel-words.sh [-o DIR] [-S LOGINS] [-n COUNT] [-g] FOLDER...: the words on every page of the PDFs below the
# folders, counted by GNU parallel, a job for each batch of COUNT pages (default 64).
#
# LOGINS as parallel's --sshlogin has them (8/user@a,8/b; default `:`, this machine). Hosts need lx and what the jobs
# call, and nothing of ours is left there. DIR (default parallel-words.out) gets words.jsonl and failures.jsonl, the
# spool and joblogs.
# Ended at any moment, the same command goes on: only batches without a result are done again. When it says that batches
# have failed for good, -g gives them up: their pages fail, and each document gets its verdict.
# Exits 0 when every PDF has its verdict, 3 when batches are missing. Needs poppler-utils and parallel.
set -euo pipefail

out=parallel-words.out logins=: count=64 give_up=
while getopts o:S:n:g o; do
	case $o in
	o) out=$OPTARG ;;
	S) logins=$OPTARG ;;
	n) count=$OPTARG ;;
	g) give_up=1 ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
if (($# == 0)); then
	echo 'usage: parallel-words.sh [-o DIR] [-S LOGINS] [-n COUNT] [-g] FOLDER...' >&2
	exit 2
fi
for folder; do folders+=("$(realpath "$folder")"); done
mkdir -p "$out"
cd "$out"

# The run has an id of its own, kept for the next time; the spool is called by it, and so are the files on the hosts.
[[ -s run ]] || { echo "words-$(date +%Y%m%d-%H%M%S)-$$" >run.new && mv run.new run; }
run=$(<run)
spool=lx-$run

all() { # FILE...: those that are there
	local p
	for p; do [[ ! -e $p ]] || echo "$p"; done
}

# The names of the batches. A complete spool needs no source.
batches() {
	if [[ -e $spool/out/$run.last.lx ]]; then
		all "$spool"/in/*.lx
	else
		find "${folders[@]}" -name '*.pdf' -print0 | sort -z |
			lx-in -0 -d doc --run "$run" |
			lx-expand -d page -s 'delim:\f' -j 2 -- pdftotext -q {path} - |
			lx-batch -n "$count" --spool "$spool"
	fi
}

# Those that have no result: that counts, not what a joblog says (a result can be lost on its way).
missing() {
	all "$spool"/in/*.lx | while IFS= read -r p; do
		[[ -e $spool/out/${p##*/} ]] || echo "$p"
	done
}

# JOBLOG [OPTION...]: a job for each name on stdin. It starts with the first. What a word is depends on the locale, and ssh brings none.
jobs() {
	local log=$1
	shift
	parallel --sshlogin "$logins" "${far[@]}" --joblog "$log" --retries 3 "${bar[@]}" "$@" \
		"mkdir -p $spool/out && LC_ALL=C.UTF-8 lx-map -o words:int --drop data --from {} --to $spool/out/{/} -- wc -w"
}
far=() bar=()
[[ $logins =~ ^([0-9]+/)?:$ ]] || far=(--transferfile {} --return "$spool/out/{/}" --cleanup)
[[ ! -t 2 ]] || bar=(--bar) # not into files

# First in the order of the names, as the joblog counts; then whatever still has no result.
work() {
	batches | jobs joblog --resume-failed || true
	missing | jobs "joblog.$(date +%s)" || true
	[[ -z $give_up ]] || missing | while IFS= read -r p; do
		lx-fail --all -t gave-up --from "$p" --to "$spool/out/${p##*/}" 'its batch failed on every attempt'
	done
}

# The end of the jobs' output tells lx-cat that no more will come.
work | lx-cat --follow "$spool/out" | lx-gather -d page | lx-out -q --ordered --to words.jsonl --failures failures.jsonl --max-failed 100%
