// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Answers each line of standard input with the numbers of a law, for the test that compares them with crates/stack.
//
//   LAW index segments, and for each of 8 rows: window srtt delivered
//   wvegas base alpha queueing rate others window rtt limited threshold
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef uint32_t __u32;
typedef int32_t __s32;
typedef uint64_t __u64;
typedef int64_t __s64;

#include "../../programs/laws.h"

static int one_of_many(const char *law)
{
	struct row rows[ROWS] = {};
	struct rates rates;
	__u32 index, segments, own;

	if (scanf("%" SCNu32 "%" SCNu32, &index, &segments) != 2)
		return 0;
	for (int k = 0; k < ROWS; k++)
		if (scanf("%" SCNu32 "%" SCNu32 "%" SCNu64, &rows[k].window, &rows[k].srtt, &rows[k].delivered) != 3)
			return 0;
	gather(rows, &rates);
	own = rows[index].window;
	if (!strcmp(law, "lia"))
		printf("%" PRIu64 " %" PRIu32 "\n", lia_growth(&rates, own), segments / 2);
	else if (!strcmp(law, "olia"))
		printf("%" PRId64 " %" PRIu32 "\n", olia_growth(rows, &rates, index), segments / 2);
	else
		printf("%" PRIu64 " %" PRIu32 "\n", balia_growth(&rates, rates.x[index], own),
		       balia_reduced(&rates, rates.x[index], segments));
	return 1;
}

static int wvegas(void)
{
	struct vegas vegas;
	__u64 rate, others;
	__u32 window, rtt, threshold;
	int limited;

	if (scanf("%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu64 "%" SCNu64 "%" SCNu32 "%" SCNu32 "%d%" SCNu32, &vegas.base,
		  &vegas.alpha, &vegas.queueing, &rate, &others, &window, &rtt, &limited, &threshold) != 9)
		return 0;
	window = wvegas_window(&vegas, &rate, others, window, rtt, limited, &threshold);
	printf("%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu32 "\n", window, vegas.alpha, vegas.queueing, rate, threshold);
	return 1;
}

int main(void)
{
	char law[8];

	while (scanf("%7s", law) == 1)
		if (!(strcmp(law, "wvegas") ? one_of_many(law) : wvegas()))
			return 1;
	return 0;
}
