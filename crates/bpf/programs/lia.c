// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// LIA, the linked increases algorithm: the subflows of a connection together take as much as one TCP on the best of their paths
// (RFC 6356; crates/stack/src/congestion/lia.rs). Reductions are Reno's. The growth is computed for each acknowledgement.
#define LAW lia
#include "shared.h"

PROGRAMS
STATE

SEC("struct_ops/avoid") void lia_avoid(__u64 *context)
{
	struct step step;
	struct rates rates;

	if (!prepare(&step, context))
		return;
	gather(step.connection->rows, &rates);
	advance(&step, lia_growth(&rates, step.row->window));
}

SEC("struct_ops/reduce") __u32 lia_reduce(__u64 *context)
{
	return reduce_to_half(context);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops OPS = {
	COMMON,
	.cong_avoid = (void *)lia_avoid,
	.ssthresh = (void *)lia_reduce,
	.set_state = (void *)ab_state,
};
