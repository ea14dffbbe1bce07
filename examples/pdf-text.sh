#!/bin/bash
# examples/pdf-text.sh [-o DIR] FOLDER...: the text of every PDF below the folders.
#
# DIR (default pdf-text.out) gets docs.jsonl, a JSON document for each good PDF with its pages in order, and
# failures.jsonl, a line for each bad one that says why. A page's text is its own where it has one, and what tesseract
# reads otherwise. Exits 0 when every PDF has its verdict, whatever it is. Needs poppler-utils, tesseract-ocr and jq.
set -euo pipefail

pipeline() { # FOLDER...
	find "$@" -name '*.pdf' -print0 | sort -z |
		lx-in -0 -d doc |
		lx-expand -d page -s 'delim:\f' --carry path -j "$jobs" --stats "$stats/1" -- "$self" --pages {path} |
		lx-map -o text:str --drop data,path -j "$jobs" --stats "$stats/2" -- "$self" --text {path} {ordinal} |
		lx-gather -d page --stats "$stats/3" |
		lx-out -q --ordered --to "$out/docs.jsonl" --failures "$out/failures.jsonl" --max-failed 100% --stats "$stats/4"
}

# PDF: the text of its pages, a form feed after each. poppler exits 0 on a damaged file and only says so.
pages() {
	local said status=0
	{ said=$(pdftotext "$1" - 2>&1 >&3 3>&-) || status=$?; } 3>&1
	if ((status)); then
		lx-fail -t bad-pdf "${said%%$'\n'*}"
	elif [[ $said == *'Syntax Error'* ]]; then
		lx-fail -t damaged "${said%%$'\n'*}"
	fi
}

# PDF ORDINAL: the text of one page; stdin: the text it has in the file.
text() {
	local text page=$(($2 + 1))
	text=$(cat)
	[[ $text == *[![:space:]]* ]] || text=$(pdftoppm -r 150 -gray -f $page -l $page "$1" | tesseract - - quiet)
	[[ $text == *[![:space:]]* ]] || lx-fail -t empty-page 'no text in the file, and tesseract reads none'
	printf '%s\n' "$text"
}

# NUMBER: so many microseconds it took.
report() {
	echo 'Documents:'
	cut -c -150 "$out/docs.jsonl" | sed 's/^/  /; s/\(.\{152\}\)$/\1.../'
	echo
	{
		printf 'PDF\tverdict\ttype\twhere\twhy\n'
		jq -rs 'sort_by(.lx.id)[]
			| [(.path | if type == "string" then sub(".*/"; "") else tojson end)]
			+ (.lx.cause as $c | if $c then ["failed", $c.type, $c.where // "-", $c.message]
				else ["ok", "-", "-", "\(.page | length) page" + if .page[1] then "s" else "" end] end)
			| @tsv' "$out"/{docs,failures}.jsonl
	} | while IFS=$'\t' read -r -a cell; do printf '%-20s %-8s %-12s %-8s %s\n' "${cell[@]}"; done
	echo
	jq -nr --slurpfile docs "$out/docs.jsonl" --slurpfile bad "$out/failures.jsonl" --slurpfile stats <(cat "$stats"/*) '
		($docs | map(.page | length) | add // 0) as $pages | ($stats | map(.cpu_ms) | add) as $lx
		| ($stats | map(.child_cpu_ms) | add) as $commands
		| "\($docs + $bad | length) PDFs, \($docs | length) of them good, with \($pages) pages, in \($us / 1e4 | floor / 100) s: "
		+ "\($pages * 1e6 / $us | floor) pages/s",
		"CPU time: \($commands / 1000) s in pdftotext, pdftoppm, tesseract and their shells, \($lx / 1000) s in lx"' \
		--argjson us "$1"
	echo "Whole documents: $out/docs.jsonl; what failed: $out/failures.jsonl"
}

self=$(realpath "$0") jobs=$(nproc) out=pdf-text.out
case ${1-} in
--pages) pages "$2"; exit ;;
--text) text "$2" "$3"; exit ;;
-o) out=${2-} && shift $(($# < 2 ? 1 : 2)) ;;
esac
if [[ $# == 0 || $1 == -* || -z $out ]]; then
	echo 'usage: pdf-text.sh [-o DIR] FOLDER...' >&2
	exit 2
fi
mkdir -p "$out"
stats=$(mktemp -d)
trap 'rm -rf "$stats"' EXIT
began=${EPOCHREALTIME/./}
pipeline "$@"
report $((${EPOCHREALTIME/./} - began))
