/* plugin: ops of the user's: kernels that are compiled at start, and plugins that were made before.
 *
 * A plugin is a shared object with the data symbol lx_plugin (kernel.h). It is looked at before it is loaded and
 * before it is believed: a file that is cut off, one made for another ABI, and kernels whose description makes no sense are
 * refused with the reason. A plugin is code of the user's: what it does once it is loaded is not guarded.
 */
#ifndef LX_PLUGIN_H
#define LX_PLUGIN_H

#include "op.h"

#define LX_PLUGIN_KERNELS 64 /* in one file */

/* Add the ops of a plugin to those there are; they stay until the program ends. -1: LX_USAGE: what is wrong with it. */
int lx_plugin_load(const char *file, struct lx_err *e);
/* Those of a source file, or only the one called so: "FILE", "FILE:FUNC". -1: LX_USAGE: it does not compile, what is wrong
 * with it; LX_SYSTEM. */
int lx_plugin_compile(const char *file, struct lx_err *e);
/* Forget all of them. */
void lx_plugins_free(void);

#endif
