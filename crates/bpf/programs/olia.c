// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// OLIA, the opportunistic linked increases algorithm: as LIA, and traffic moves to the paths that lose least (Khalili et al.,
// CoNEXT 2012; draft-khalili-mptcp-congestion-control-05; crates/stack/src/congestion/olia.rs). Reductions are Reno's, with a minimum
// threshold of 1 segment while there are several subflows.
//
// l counts delivered segments times the current maximum segment size, and not bytes.
#define LAW olia
#include "shared.h"

PROGRAMS
STATE

// Writes l, the data delivered since the last loss, or between the last two if that is more.
ALWAYS void publish_delivered(struct tcp_sock *tp, struct own *own, struct row *row)
{
	__u32 since = tp->delivered - own->at_loss;

	row->delivered = (__u64)(since > own->before ? since : own->before) * tp->mss_cache;
}

SEC("struct_ops/avoid") void olia_avoid(__u64 *context)
{
	struct own *own = own_of(TP(context));
	struct rates rates;
	struct step step;

	if (!prepare(&step, context))
		return;
	publish_delivered(step.tp, own, step.row);
	gather(step.connection->rows, &rates);
	advance(&step, olia_growth(step.connection->rows, &rates, own->index));
}

SEC("struct_ops/reduce") __u32 olia_reduce(__u64 *context)
{
	struct tcp_sock *tp = TP(context);
	struct own *own = own_of(tp);
	struct connection *connection = connection_of(own);
	__u32 window, since = tp->delivered - own->at_loss;

	if (!connection)
		return half(tp, 2);
	window = half(tp, least_threshold(connection));
	note_reduced(own, row_of(connection, own), window);
	// A second loss before anything else was delivered is the same loss.
	if (since) {
		own->before = since;
		own->at_loss = tp->delivered;
	}
	publish_delivered(tp, own, row_of(connection, own));
	return window;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops OPS = {
	COMMON,
	.cong_avoid = (void *)olia_avoid,
	.ssthresh = (void *)olia_reduce,
	.set_state = (void *)ab_state,
};
