# The corpus (tests/corpus): every reader exits as its README says.
load lib

CORPUS=$ROOT/tests/corpus

# rows: FILE STATUS OPTIONS, a line for each of the table.
rows() { sed -nE 's/^\| ([^ ]+\.lx) \| ([0-9]) \| ([^|]*)\|.*/\1 \2 \3/p' "$CORPUS/README.md"; }

@test "corpus: make.py makes exactly what is kept" {
	mkdir new seeds
	"$PY" "$CORPUS/make.py" new seeds
	diff -r -x make.py -x '*.pyc' -x __pycache__ "$CORPUS" new
	diff -r "$ROOT/tests/fuzz/seeds/record" seeds
}

@test "corpus: lx-cat exits as the README says, with one line of reason" {
	local file status options got n=0 wrong=''
	while read -r file status options; do
		got=0
		# shellcheck disable=SC2086
		lx-cat --verify $options <"$CORPUS/$file" >out 2>err || got=$?
		[[ $got == "$status" ]] || wrong+="$file $options: exit $got, not $status: $(<err)"$'\n'
		if ((status == 0)); then
			[[ ! -s err ]] || wrong+="$file $options: $(<err)"$'\n'
		elif [[ $file != bad-abort-[2-7fb]* ]]; then # an abort mark has been reported by the stage that it names
			[[ $(wc -l <err) == 1 ]] || wrong+="$file $options: not one line: $(<err)"$'\n'
		fi
		n=$((n + 1))
	done < <(rows)
	((n >= 190)) || fail "only $n rows"
	[[ -z $wrong ]] || fail "$wrong"
}

@test "corpus: what lx-cat makes of a stream that it refuses is not complete either" {
	local file status options got wrong=''
	while read -r file status options; do
		((status)) || continue
		# shellcheck disable=SC2086
		lx-cat --verify $options <"$CORPUS/$file" >out 2>/dev/null || true
		got=0
		lx-cat <out >/dev/null 2>&1 || got=$?
		((got)) || wrong+="$file $options: its copy is complete"$'\n'
	done < <(rows)
	[[ -z $wrong ]] || fail "$wrong"
}

@test "corpus: a copy of every good stream is equal to it, in every packing" {
	local file packing n=0
	for file in "$CORPUS"/good-*.lx; do
		for packing in raw checked zstd; do
			lx-cat --compress "$packing" <"$file" >out || fail "$file"
			same_stream "$file" out
		done
		n=$((n + 1))
	done
	((n >= 25))
}

@test "corpus: zstd -dc opens every good stream" {
	local file
	for file in "$CORPUS"/good-*.lx; do
		zstd -dcq <"$file" >out || fail "$file"
	done
}

@test "corpus: lx-cat reads declared gigabytes in little memory" {
	local file
	! sanitized || return 0
	for file in bad-4g-bin bad-4g-str bad-4g-array bad-4g-map bad-4g-ext bad-mark-4g bad-depth-bomb bad-window-2g bad-frame-bomb; do
		exits 3 bash -c 'ulimit -v 100000; exec lx-cat <"$1"' - "$CORPUS/$file.lx"
		[[ $(wc -l <err) == 1 ]] || fail "$file: $(<err)"
	done
}
