/* fuzz: main of a fuzz target that is built as an ordinary program. Each file named on the command line, else of
 * the folders of the target (CORPUS), is handed to LLVMFuzzerTestOneInput, one TAP line a folder; a finding ends the
 * program. With clang -fsanitize=fuzzer -DLX_LIBFUZZER libFuzzer brings its own main:
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DLX_LIBFUZZER -D_GNU_SOURCE -iquote lib -iquote formats \
 *         $(pkg-config --cflags msgpack) tests/fuzz/fuzz_stream.c lib/[a-z]*.c \
 *         -lmsgpackc -lzstd -lxxhash -lm -o fuzz_stream && ./fuzz_stream NEW tests/corpus tests/fuzz/seeds/stream
 * What it finds goes into the folder of seeds once the fault is mended.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "stream.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold whatever the input is. */
#define HOLDS(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* A file in memory that holds the bytes, at its beginning. */
static inline int fuzz_fd(struct lx_span s)
{
	struct lx_err e = LX_ERR_INIT;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	HOLDS(fd >= 0 && lx_io_write(fd, s.p, s.len, &e) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

#ifndef LX_LIBFUZZER

static inline void fuzz_file(const char *path)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	HOLDS(fd >= 0 && lx_io_slurp(fd, &b, 64u << 20, "", &e) == 0);
	close(fd);
	LLVMFuzzerTestOneInput(b.p ? b.p : (const uint8_t *)"", b.len);
	lx_buf_free(&b);
}

/* Every regular file in it; how many. */
static inline int fuzz_folder(const char *path)
{
	char name[4096];
	struct dirent *d;
	int n = 0;
	DIR *dir = opendir(path);
	HOLDS(dir != NULL);
	while ((d = readdir(dir))) {
		if (d->d_type != DT_REG)
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, d->d_name);
		fuzz_file(name);
		n++;
	}
	closedir(dir);
	return n;
}

static inline int fuzz_main(int argc, char **argv, const char *const *corpus)
{
	int bad = 0, n = 0;
	for (int i = 1; i < argc; i++)
		fuzz_file(argv[i]);
	for (; argc == 1 && corpus[n]; n++) {
		int files = fuzz_folder(corpus[n]);
		bad += files == 0;
		printf("%sok %d - %d files of %s\n", files ? "" : "not ", n + 1, files, corpus[n]);
		fflush(stdout);
	}
	printf("1..%d\n", n);
	return bad != 0;
}

#define FUZZ_MAIN(...) \
	int main(int argc, char **argv) \
	{ \
		return fuzz_main(argc, argv, (const char *const[]){ __VA_ARGS__, NULL }); \
	}

#else
#define FUZZ_MAIN(...)
#endif

#endif
