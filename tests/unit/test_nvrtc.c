/* Kernels of the user's for a CUDA device, as the toolkit's compiler takes them; no device is needed. */
#include "compile.h"
#include "nvrtc.h"

#include "tap.h"

#include <elf.h>

static const char good[] = "#include <lx/kernel.h>\n"
                           "#include <stdint.h>\n"
                           "LX_FN uint32_t half(uint32_t x)\n{\n\treturn x / 2;\n}\n"
                           "LX_PHASE(clear)\n{\n\tLX_ONCE\n\t\tk->out[0] = 0;\n}\n"
                           "LX_PHASE(count)\n{\n\tLX_FOR(p, k->len)\n\t\tif (k->in[p] < k->args[0])\n\t\t\tLX_ADD(&k->out[0], half(2));\n"
                           "\tif (k->len == 0)\n\t\tLX_REFUSE(1);\n}\n"
                           "LX_KERNEL(low, LX_BYTES, \"uint\", \"no-text record\", 0, clear, count)\n"
                           "LX_PLUGIN(low)\n";

static struct lx_nvrtc_job job;

static void release(void)
{
	lx_buf_free(&job.image);
	lx_buf_free(&job.log);
}

static int compile(const char *source, int major, int minor, struct lx_err *e)
{
	release();
	*e = (struct lx_err)LX_ERR_INIT;
	job = (struct lx_nvrtc_job){ .file = "some/where.cu", .source = source, .major = major, .minor = minor };
	return lx_nvrtc_compile(&job, e);
}

static bool holds(const struct lx_buf *b, const char *text)
{
	return memmem(b->p, b->len, text, strlen(text)) != NULL;
}

static void a_kernel_compiles(void)
{
	struct lx_err e;
	CHECK(compile(good, 9, 0, &e) == 0);
	if (e.code)
		printf("# %s\n%.*s", e.msg, (int)job.log.len, (const char *)job.log.p);
	CHECK(job.image.len > 1000 && memcmp(job.image.p, ELFMAG, SELFMAG) == 0);
	CHECK(holds(&job.image, "low") && holds(&job.image, "low_about") && holds(&job.image, "no-text record"));
}

static void unknown_devices_get_ptx(void)
{
	struct lx_err e;
	CHECK(compile(good, 99, 9, &e) == 0);
	CHECK(job.image.len > 1000 && holds(&job.image, ".target sm_") && holds(&job.image, "low") && job.image.p[job.image.len] == 0);
	CHECK(compile(good, 1, 0, &e) < 0 && e.code == LX_WORKER && strstr(e.msg, "1.0"));
}

static void errors_name_the_line(void)
{
	struct lx_err e;
	CHECK(compile("#include <lx/kernel.h>\nLX_PHASE(p)\n{\n\tk->out[0] = wrong;\n}\n", 9, 0, &e) < 0 && e.code == LX_USAGE);
	CHECK(holds(&job.log, "where.cu(4)") && holds(&job.log, "wrong"));
}

int main(void)
{
	struct lx_err e;
	/* Without the toolkit there is one thing to test. */
	if (compile(good, 9, 0, &e) < 0 && e.code == LX_WORKER) {
		CHECK(strstr(e.msg, "libnvrtc"));
	} else {
		RUN(a_kernel_compiles);
		RUN(unknown_devices_get_ptx);
		RUN(errors_name_the_line);
	}
	release();
	return tap_done();
}
