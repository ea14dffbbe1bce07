# make install and uninstall, and a program of somebody else's built against what was installed.
# once
load lib

# Makes in the tree the tests run from, with the objects that are there.
inmake() { make -s --no-print-directory -C "$ROOT" B="$B" "$@"; }

setup_file() {
	export DEST=$BATS_FILE_TMPDIR/dest
	cd "$BATS_TEST_DIRNAME/.." && make -s --no-print-directory install DESTDIR="$DEST" PREFIX=/opt/lx B="${B:-build}"
}

@test "install: programs, manual, libraries and headers land below DESTDIR and PREFIX and nowhere else" {
	local f
	for f in "$ROOT"/cmd/lx-*.c; do
		f=$(basename "$f" .c)
		[[ -x $DEST/opt/lx/bin/$f ]] || fail "no $f"
		[[ -f $DEST/opt/lx/share/man/man1/$f.1 ]] || fail "no manual of $f"
	done
	[[ -f $DEST/opt/lx/share/man/man7/lx.7 && -f $DEST/opt/lx/share/man/man5/lx-stream.5 ]]
	for f in "$ROOT"/lib/*.h; do
		[[ $f != *-int.h ]] || continue # of several files of one module
		cmp "$f" "$DEST/opt/lx/include/lx/${f##*/}"
	done
	cmp "$ROOT/gpu/kernel.h" "$DEST/opt/lx/include/lx/kernel.h"
	[[ $(ls "$DEST"/opt/lx/include/lx | grep -c -e -int) == 0 ]]
	run find "$DEST" -type f -not -path "$DEST/opt/lx/*"
	assert_output ''
	run ls "$DEST/opt/lx"
	assert_output $'bin\ninclude\nlib\nshare'
}

@test "install: an installed program runs" {
	run "$DEST/opt/lx/bin/lx-cat" -V
	assert_success
	assert_output --partial "$(sed -n 's/^VERSION *= *//p' "$ROOT/Makefile")"
}

@test "install: liblx.so has a soname, and lx.pc the version" {
	run readelf -d "$DEST/opt/lx/lib/liblx.so"
	assert_output --partial 'soname: [liblx.so.0]'
	export PKG_CONFIG_PATH=$DEST/opt/lx/lib/pkgconfig
	run pkg-config --modversion lx
	assert_output "$(sed -n 's/^VERSION *= *//p' "$ROOT/Makefile")"
	run pkg-config --cflags --libs lx
	assert_output --regexp '^-I/opt/lx/include -L/opt/lx/lib -llx ?$'
}

# A worker in a few lines, as a user would write it.
worker() {
	cat >worker.c <<'END'
#include <lx/stage.h>

int main(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_stage_conf conf = { .tool = "worker", .in = 0, .out = 1, .limits = LX_LIMITS_DEFAULT, .packing = -1,
		                      .keep_frames = true };
	struct lx_stage s;
	struct lx_rec r;
	enum lx_step step = LX_STEP_ERROR;
	if (lx_stage_init(&s, &conf, &e) == 0)
		while ((step = lx_stage_next(&s, &r, &e)) > LX_STEP_ERROR && step != LX_STEP_EOF)
			if ((step == LX_STEP_MORE && lx_stage_wait(&s, &e) < 0) ||
			    (step == LX_STEP_ITEM && lx_stage_put(&s, &r, &e) < 0) ||
			    (step == LX_STEP_RUN && lx_stage_end_run(&s, &e) < 0))
				break;
	if (e.code)
		lx_stage_abort(&s, &e);
	return e.code;
}
END
	# The tree was installed below DESTDIR: pkg-config is told so, as a packager does.
	export PKG_CONFIG_PATH=$DEST/opt/lx/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$DEST
	# shellcheck disable=SC2046
	${CC:-cc} -Wall -Werror "$@" -o worker worker.c $(pkg-config --cflags lx) $(pkg-config "${static[@]}" --libs lx)
}

check_worker() {
	seq 100 | lx-in --run r --lines >in
	./worker <in >out
	same_stream in out
	head -c 200 in >cut
	exits 3 ./worker <cut
}

@test "liblx: a worker builds against the shared library" {
	local static=()
	worker
	run readelf -d worker
	assert_output --partial 'liblx.so.0'
	export LD_LIBRARY_PATH=$DEST/opt/lx/lib
	check_worker
}

@test "liblx: a worker builds against the static library" {
	local static=(--static)
	worker -static
	run readelf -d worker
	assert_output --partial 'There is no dynamic section'
	check_worker
}

@test "uninstall: takes away every file that install made" {
	inmake install DESTDIR="$PWD/d" PREFIX=/usr
	[[ -x d/usr/bin/lx-cat ]]
	inmake uninstall DESTDIR="$PWD/d" PREFIX=/usr
	run find d -not -type d
	assert_output ''
	[[ ! -e d/usr/include/lx ]]
}

@test "make: says in one line what is missing, and builds nothing" {
	local make
	make=$(command -v make)
	mkdir bin
	ln -s "$(command -v sh)" "$(command -v tr)" "$(command -v sort)" "$(command -v id)" bin
	cd "$ROOT"
	PATH=$BATS_TEST_TMPDIR/bin run "$make" B="$BATS_TEST_TMPDIR/b"
	assert_failure
	assert_output --partial 'missing on this machine: gcc'
	assert_output --partial '"make deps" installs them'
	assert_equal "${#lines[@]}" 1
	[[ ! -e $BATS_TEST_TMPDIR/b ]]
}

@test "tests/deps: silent when all is there" {
	run "$ROOT/tests/deps" build check demo
	assert_success
	assert_output ''
}

@test "tests/deps: without apt-get names the packages and fails" {
	local c
	mkdir bin
	for c in sh env tr sort awk id; do ln -s "$(command -v $c)" bin; done
	PATH=$PWD/bin run "$ROOT/tests/deps" build demo
	assert_failure 1
	assert_output --partial 'tesseract-ocr: text of scanned pages'
	assert_output --regexp "Debian's names: .*gcc.*libzstd-dev.*poppler-utils"
}

@test "tests/deps: installs with apt-get what is missing and nothing else" {
	local c
	mkdir bin
	# what it needs itself, and all that it looks for but one
	for c in sh env tr sort awk grep cat mktemp rm cc $(sed -n "s/^\tneed [^ ]* \([a-z][a-z0-9+-]*\) '.*/\1/p" "$ROOT/tests/deps" | grep -v '^pdf'); do
		ln -sf "$(command -v "$c")" bin
	done
	printf '#!/bin/sh\necho 0\n' >bin/id
	printf '#!/bin/sh\necho "apt-get $*" >>log\n' >bin/apt-get
	chmod +x bin/id bin/apt-get
	PATH=$PWD/bin run "$ROOT/tests/deps" build demo check
	assert_success
	assert_output --partial 'poppler-utils: pages and text of PDFs'
	run cat log
	assert_line --index 0 --partial 'update'
	assert_line --index 1 --regexp ' install -y --no-install-recommends poppler-utils$'
}
