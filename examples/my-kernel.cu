/* lx-gpu --kernel my-kernel.cu dark:100: how many pixels are darker than 100. A page that is all dark fails. */
#include <lx/kernel.h>

LX_PHASE(clear)
{
	LX_ONCE
		k->out[0] = 0;
}

LX_PHASE(count)
{
	LX_FOR(p, (uint64_t)k->width * k->height)
		if (k->grey[p] < k->args[0])
			LX_ADD(&k->out[0], 1);
}

LX_PHASE(judge)
{
	LX_ONCE
		if (k->out[0] == (uint64_t)k->width * k->height)
			LX_REFUSE(1);
}

LX_KERNEL(dark, LX_IMAGE, "uint", "all-dark record", 0, clear, count, judge)
LX_PLUGIN(dark)
