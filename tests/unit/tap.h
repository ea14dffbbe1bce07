/* tap: a unit test is a program that prints TAP. CHECK goes on after a failure; tap_done ends main. */
#ifndef TAP_H
#define TAP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_n, tap_failed, tap_bad;

/* Check inside a test: says where it failed. */
#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond); \
			tap_bad++; \
		} \
	} while (0)

/* Run one `static void name(void)` as one TAP line. */
#define RUN(name) \
	do { \
		tap_bad = 0; \
		name(); \
		tap_n++; \
		tap_failed += tap_bad != 0; \
		printf("%sok %d - %s\n", tap_bad ? "not " : "", tap_n, #name); \
		fflush(stdout); \
	} while (0)

static inline int tap_done(void)
{
	printf("1..%d\n", tap_n);
	return tap_failed != 0;
}

#endif
