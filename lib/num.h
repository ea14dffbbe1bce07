/* num: floating point numbers as the shortest decimal text that reads back equal.
 *
 * Needs LC_NUMERIC "C", which a program has until it calls setlocale.
 */
#ifndef LX_NUM_H
#define LX_NUM_H

#include <stddef.h>

#define LX_NUM_MAX 32 /* bytes that always suffice, NUL included */

/* Write the text of v and return its length. There is always a point or an exponent ("1.0", "-0.0",
 * "1e+22"), so that a float does not turn into an integer; not finite: "nan", "inf", "-inf". */
size_t lx_num_f64(char out[LX_NUM_MAX], double v);
/* The same for a float: shortest among the texts that read back as this float ("0.1"). */
size_t lx_num_f32(char out[LX_NUM_MAX], float v);

#endif
