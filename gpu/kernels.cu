/* The built-in kernels for CUDA devices. */
#include "image.k.h"
#include "resize.k.h"
#include "text.k.h"
