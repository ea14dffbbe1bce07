# Rules of the house that a grep can keep, and the manual: layering, a page for every command, usage = SYNOPSIS,
# examples that run.
# once
load lib

setup() { cd "$ROOT" || return; }

none() { # none WHY GREP-ARGUMENTS...: grep finds nothing
	local why=$1
	shift
	if output=$(grep -nE "$@"); then fail "$why: $output"; fi
}

@test "only lib/value.c knows msgpack-c" {
	none 'msgpack outside lib/value.c' '#include *[<"]msgpack' $(ls lib/*.[ch] formats/*.[ch] cmd/*.[ch] | grep -vx lib/value.c)
	grep -q '#include <msgpack.h>' lib/value.c
}

@test "only lib/frame.c knows zstd" {
	none 'zstd outside lib/frame.c' '#include *[<"]zstd' $(ls lib/*.[ch] formats/*.[ch] cmd/*.[ch] | grep -vx lib/frame.c)
	grep -q '#include <zstd.h>' lib/frame.c
}

@test "lib and formats never print and never exit" {
	none 'a library that prints' '\b(d?printf|v?fprintf|f?puts|f?putc|putchar|fwrite|perror|warnx?|errx?)\(' \
		lib/*.c formats/*.c
	none 'a library that exits' '\b(exit|abort|quick_exit|_Exit|assert)\(' lib/*.c formats/*.c
	none 'a library that exits' '\b_exit\(' $(ls lib/*.c formats/*.c | grep -vx lib/spawn.c)
}

@test "lib does not use cmd or formats, and formats does not use cmd" {
	local h
	for h in cmd/*.h formats/*.h; do
		none "lib uses $h" "#include \"${h##*/}\"" lib/*.[ch]
	done
	none 'formats uses cmd' '#include "cmd' formats/*.[ch]
}

@test "every header compiles alone" {
	local h
	for h in lib/*.h formats/*.h cmd/*.h; do
		echo "#include \"${h##*/}\"" | ${CC:-cc} -std=c11 -D_GNU_SOURCE -Ilib -Iformats -Icmd -Wall -Werror -fsyntax-only -x c - || fail "$h"
	done
}

@test "no file names the place it was built in" {
	none 'a path of this machine' -rF -- "$ROOT/" README.md Makefile .ci cmd lib formats man examples tests
}

@test "every command has a manual page, and usage says what its SYNOPSIS says" {
	local c n synopsis usage
	for c in cmd/lx-*.c; do
		n=$(basename "$c" .c)
		[[ -e man/$n.1 ]] || fail "no man/$n.1"
		synopsis=$(mandoc -Tascii -Owidth=1000 "man/$n.1" | sed "s,.\x08,,g" | sed -n '/^SYNOPSIS/,/^DESCRIPTION/{//d;p}' | tr -s ' \n' ' ')
		usage=$("$B/bin/$n" -h | sed '1s/^usage: //' | tr -s ' \n' ' ')
		[[ "${synopsis# }" == "${usage# }" ]] || fail "$n: SYNOPSIS and usage differ
SYNOPSIS: $synopsis
usage:    $usage"
	done
	[[ -e man/lx.7 && -e man/lx-stream.5 ]]
}

@test "manual pages are clean under mandoc -Tlint" {
	# What is installed on this machine says nothing about our pages; the next test looks after their references.
	output=$(mandoc -Tlint man/*.[157] 2>/dev/null | grep -v 'referenced manual not found') || true
	assert_output ''
}

@test "every page of this project that a manual refers to exists" {
	local page section
	while read -r page section; do
		[[ -e man/$page.$section ]] || fail "no man/$page.$section"
	done < <(sed -nE 's/^\.Xr (lx[a-z-]*) ([0-9]).*/\1 \2/p' man/*.[157] | sort -u)
}

@test "the manual says which exit statuses there are" {
	local n
	for n in 0 1 2 3 4 5 6 7; do
		grep -qE "^\.It( Li| Er)? ?$n( |\$)" man/lx.7 || fail "lx.7 lacks exit $n"
	done
}

@test "lx(7) has every type of failure that lx itself uses" {
	local type n=0
	for type in $(grep -ohE '"(bad|no)-[a-z]+[" ]' cmd/*.c lib/*.c formats/*.c gpu/*.c | tr -d '" ' | sort -u); do
		grep -q "^\.It $type Ta " man/lx.7 || fail "lx.7 lacks $type"
		n=$((n + 1))
	done
	((n > 6))
}

# The scripts in the EXAMPLES of a page, NUL after each: literal blocks, and .Dl lines.
examples() {
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh/p' "$1" | awk '
	/^\.Bd -literal/ { block = 1; text = ""; next }
	/^\.Ed/ && block { block = 0; printf "%s%c", text, 0; next }
	/^\.Dl / { sub(/^\.Dl +/, ""); printf "%s\n%c", $0, 0; next }
	block { text = text $0 "\n" }' | sed 's/\\&//g; s/\\-/-/g; s/\\(aq/'\''/g; s/\\(dq/"/g; s/\\(ti/~/g; s/\\(ha/^/g; s/\\e/\\/g'
}

@test "the examples of the manual pages run" {
	local page script want got dir n=0
	for page in man/*.[17]; do
		dir=$BATS_TEST_TMPDIR/${page##*/}
		mkdir -p "$dir/pdfs"
		cp "$DATA"/*.pdf "$dir/pdfs"
		while IFS= read -r -d '' script; do
			want=0 got=0
			[[ ! $script =~ ^'# exit '([0-9]+) ]] || want=${BASH_REMATCH[1]}
			(cd "$dir" && timeout 60 bash -c "$script" >.out 2>.err </dev/null 3>&-) || got=$?
			[[ $got == "$want" ]] || fail "$page: exit $got, not $want: $script$(cat "$dir/.err")"
			n=$((n + 1))
		done < <(examples "$page")
	done
	((n >= 10)) || fail "only $n examples found"
}
