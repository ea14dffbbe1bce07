#!/bin/bash
# examples/text-dedup.sh [-t SIMILARITY] FILE...: paragraphs that come more than once, or nearly, in JSON lines.
#
# A line of a FILE is a document: an object with an `id` and a `text`, paragraphs parted by empty lines. Prints a line for each
# paragraph that resembles an earlier one by SIMILARITY (default 0.8, of their sets of three words in a row) or more:
#
#     document  paragraph  is like document  paragraph  similarity       parted by tabs, paragraphs counted from 0
#
# Documents that could not be read are named on standard error. Exits 0 when every document has its verdict. Needs jq.
set -euo pipefail

# 32 bands of 4: two paragraphs with similarity 0.8 miss each other once in ten million times.
signatures() { # FILE...
	cat -- "$@" |
		lx-in --jsonl -d doc --key id |
		lx-expand -d paragraph -i text -s 'delim:\n\n' |
		lx-batch -n 256 |
		lx-gpu -q --drop data minhash:128:3:32 |
		lx-gather -d paragraph |
		lx-out -q --ordered --failures >(jq -r '"\(.lx.key): \(.lx.cause.type): \(.lx.cause.message)"' >&2) --max-failed 100%
}

# Paragraphs that share a band with an earlier one are compared with it, in full. Those without words are alike in nothing.
similar() { # SIMILARITY
	jq -r '.lx.key as $doc | .paragraph[] | select(.minhash.signature | any(. != 4294967295))
		| [$doc, .ordinal, (.minhash.signature | join(" ")), (.minhash.bands | join(" "))] | @tsv' |
		awk -F'\t' -v least="$1" '
		function similarity(a, b,   x, y, n, i, same) {
			n = split(a, x, " ")
			split(b, y, " ")
			for (i = 1; i <= n; i++) same += x[i] == y[i]
			return same / n
		}
		{
			best = 0
			split("", seen)
			n = split($4, band, " ")
			for (i = 1; i <= n; i++) {
				if (!((i, band[i]) in first) || (other = first[i, band[i]]) in seen) continue
				seen[other]
				s = similarity($3, signature[other])
				if (s > best) { best = s; like = other }
			}
			if (best >= least) { printf "%s\t%s\t%s\t%.2f\n", $1, $2, name[like], best; next }
			signature[NR] = $3
			name[NR] = $1 "\t" $2
			for (i = 1; i <= n; i++) if (!((i, band[i]) in first)) first[i, band[i]] = NR
		}'
}

least=0.8
while getopts t: o; do
	case $o in
	t) least=$OPTARG ;;
	*) exit 2 ;;
	esac
done
if [[ ! $least =~ ^(0(\.[0-9]+)?|1(\.0+)?)$ ]]; then
	echo "text-dedup.sh: -t: '$least' is no number from 0 to 1" >&2
	exit 2
fi
shift $((OPTIND - 1))
if (($# == 0)); then
	sed -n '2s/^# /usage: /p' "$0" >&2
	exit 2
fi
signatures "$@" | similar "$least"
