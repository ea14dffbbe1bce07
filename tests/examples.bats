# The demo, and what the README tells a newcomer to type.
# once
load lib

setup_file() {
	cd "$BATS_TEST_DIRNAME/.." || return
	PATH=$PWD/${B:-build}/bin:$PATH examples/pdf-text.sh -o "$BATS_FILE_TMPDIR/out" examples/data >"$BATS_FILE_TMPDIR/said" 3>&-
}

docs() { echo "$BATS_FILE_TMPDIR/out/docs.jsonl"; }
failures() { echo "$BATS_FILE_TMPDIR/out/failures.jsonl"; }

@test "pdf-text.sh: every PDF has exactly one verdict" {
	run jq -r '.path | sub(".*/"; "")' "$(docs)"
	assert_output $'essay.pdf\nhandbook.pdf\nletter.pdf\non page order.pdf\nscan.pdf'
	run jq -r '.path | sub(".*/"; "")' "$(failures)"
	assert_output $'cut.pdf\ndamaged.pdf\nminutes.pdf\nnot-a-pdf.pdf'
}

@test "pdf-text.sh: every page is there, in order, with the text that is on it" {
	cd "$ROOT"
	run "$PY" - "$(docs)" <<'END'
import json, subprocess, sys
def told(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
for doc in map(json.loads, open(sys.argv[1])):
    pages = int(told("sh", "-c", 'pdfinfo "$1" | sed -n "s/^Pages: *//p"', "-", doc["path"]))
    assert [p["ordinal"] for p in doc["page"]] == list(range(pages)), doc["path"]
    for p in doc["page"]:
        n = str(p["ordinal"] + 1)
        text = told("pdftotext", "-f", n, "-l", n, doc["path"], "-").strip()
        assert p["text"].strip() == text or not text, (doc["path"], n, p["text"], text)
    print(len(doc["page"]))
END
	assert_success
	assert_line --index 0 5
	((${lines[1]} >= 24))
	assert_line --index 2 1
	assert_line --index 3 2
	assert_line --index 4 2
}

@test "pdf-text.sh: a page without text of its own is read by tesseract" {
	run jq -r 'select(.path | endswith("scan.pdf")) | .page[].text' "$(docs)"
	assert_output --partial 'This page was never text.'
	assert_output --partial 'A scanner does not know where a document ends.'
}

@test "pdf-text.sh: the table says which failed, at which page, of what type and why" {
	run cat "$BATS_FILE_TMPDIR/said"
	assert_line --regexp '^cut\.pdf +failed +bad-pdf +- +Syntax Error: .*trailer'
	assert_line --regexp '^damaged\.pdf +failed +damaged +- +Syntax Error .*Unknown operator'
	assert_line --regexp '^minutes\.pdf +failed +empty-page +page 3 +no text in the file'
	assert_line --regexp '^not-a-pdf\.pdf +failed +bad-pdf +- +Syntax Warning: May not be a PDF'
	assert_line --partial "$(docs)"
}

@test "pdf-text.sh: odd file names are only names" {
	local name
	mkdir -p in/sub
	for name in 'two words.pdf' $'new\nline.pdf' '-f.pdf' '$(touch pwned).pdf' $'caf\xe9.pdf' '{path}.pdf'; do
		cp "$DATA/letter.pdf" "in/$name"
	done
	cd in
	run "$ROOT/examples/pdf-text.sh" -o ../out . 3>&-
	assert_success
	[[ ! -e pwned && ! -e ../pwned ]]
	run jq -r '.page | length' ../out/docs.jsonl
	assert_output $'1\n1\n1\n1\n1\n1'
}

@test "pdf-text.sh: without a folder says how it is used and exits 2" {
	run "$ROOT/examples/pdf-text.sh"
	assert_failure 2
	assert_output --partial 'usage: pdf-text.sh'
}

@test "my-kernel.cu: counts the dark pixels of an image" {
	printf 'P2\n3 2\n255\n0 128 255\n255 128 0\n' >a.pgm
	export XDG_CACHE_HOME=$PWD/cache
	run bash -o pipefail -c 'echo a.pgm | lx-in --read -d page | lx-gpu -q --kernel "$ROOT/examples/my-kernel.cu" dark:100 | lx-out -q | jq .dark'
	assert_output 2
}

@test "make demo: runs on the committed PDFs" {
	run make -s --no-print-directory -C "$ROOT" B="$B" demo
	assert_success
	assert_output --partial 'minutes.pdf'
}

@test "README: what it shows in sh blocks runs as it stands" {
	local script n=0
	export HOME=$PWD/home
	mkdir home
	cd "$ROOT"
	while IFS= read -r -d '' script; do
		bash -euo pipefail -c "$script" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" </dev/null 3>&- ||
			fail "exit $?: $script $(<"$BATS_TEST_TMPDIR/err")"
		n=$((n + 1))
	done < <(awk '/^```sh/ { on = 1; next } /^```/ { if (on) printf "%c", 0; on = 0 } on' README.md)
	((n >= 2)) || fail "only $n blocks found"
}

@test "text-dedup.sh: paragraphs that come again, or nearly, and no others" {
	cd "$BATS_TEST_TMPDIR"
	"$PY" - >docs.jsonl <<'END'
import json, random
r = random.Random(3)
words = [''.join(r.choice('abcdefgh') for _ in range(6)) for _ in range(5000)]
def paragraph(n=120):
    return [r.choice(words) for _ in range(n)]
common = paragraph()
near = list(common)
near[60] = 'changed'          # 3 of 118 shingles: similarity 115 / 121
far = common[:60] + paragraph(60)
docs = {'a': [paragraph(), common, paragraph(3)], 'b': [near, paragraph()], 'c': [far, ['short'], common], 'd': [['short'], paragraph(), [], [' ']], 'f': [[], ['\t']]}
for name, ps in docs.items():
    print(json.dumps({'id': name, 'text': '\n\n'.join(' '.join(p) for p in ps)}))
print(json.dumps({'id': 'e', 'texts': 'none'}))
END
	"$ROOT/examples/text-dedup.sh" docs.jsonl >got 2>err || fail "$(<err)"
	cut -f 1-4 got >pairs
	diff pairs - <<'END'
b	0	a	1
c	2	a	1
d	0	c	1
END
	awk -F'\t' '$1 == "b" && ($5 < 0.85 || $5 > 1) || $1 != "b" && $5 != 1 { exit 1 }' got
	wait_for 10 grep -q '^e: no-field' err
	"$ROOT/examples/text-dedup.sh" -t 0.999 docs.jsonl 2>/dev/null | cut -f 1-4 >pairs
	[[ $(<pairs) == $'c\t2\ta\t1\nd\t0\tc\t1' ]] || fail "$(<pairs)"
	run -2 "$ROOT/examples/text-dedup.sh"
	for bad in x '' -1 1.5 0x1 .; do
		exits 2 "$ROOT/examples/text-dedup.sh" -t "$bad" docs.jsonl
		says "'$bad' is no number from 0 to 1"
	done
}
