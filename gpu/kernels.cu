/* The built-in kernels for CUDA devices. */
#include "image.k.h"
#include "text.k.h"
