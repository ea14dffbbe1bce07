/* base64: RFC 4648 section 4, with padding, without line breaks. */
#ifndef LX_BASE64_H
#define LX_BASE64_H

#include "buf.h"

/* Append the text of the bytes. */
void lx_base64_encode(struct lx_buf *out, struct lx_span bytes);

/* Append the bytes of a text. -1, and nothing is appended, when it is not exactly what
 * lx_base64_encode would have written: wrong length, alphabet or padding, or stray bits. */
int lx_base64_decode(struct lx_buf *out, struct lx_span text);

#endif
