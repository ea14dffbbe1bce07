/* resample: the coefficients of an image's new size, in fixed point.
 *
 * The filter is Lanczos with a = 3, stretched by the scale when the image gets smaller, as Pillow's
 * Image.resize(size, LANCZOS) has it, down to its rounding: coefficients are computed as doubles, normalised to a sum of
 * one, and rounded to 22 bits behind the point; columns are resampled first, then rows, each rounded to 8 bits. Results equal
 * Pillow's bit for bit.
 *
 * A table of `out` outputs is out * LX_RESAMPLE_STRIDE(taps) numbers: per output the first input, how many, and the
 * coefficients. Everything a kernel does with it is integer arithmetic.
 */
#ifndef LX_RESAMPLE_H
#define LX_RESAMPLE_H

#include "buf.h"

#define LX_RESAMPLE_BITS 22

/* Coefficients of one output, at most. */
uint32_t lx_resample_taps(uint32_t in, uint32_t out);
/* int32_t numbers in a table: its first number is the stride from one output to the next. */
size_t lx_resample_size(uint32_t in, uint32_t out);
/* Fill a table of lx_resample_size(in, out) numbers. in, out: at least 1. */
void lx_resample_fill(int32_t *table, uint32_t in, uint32_t out);

#endif
