/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the emulator with a line on stderr. */
#ifndef FAIL_H
#define FAIL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define fail(format, ...)                                                                                         \
	do {                                                                                                      \
		fprintf(stderr, "link-emulator: " format ": %s\n", ##__VA_ARGS__, strerror(errno));               \
		exit(1);                                                                                          \
	} while (0)

#endif
