// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// BALIA, the balanced linked adaptation: coupled growth and reduction (draft-walid-mptcp-congestion-control-04;
// crates/stack/src/congestion/balia.rs), with a minimum threshold of 1 segment while there are several subflows. The reduction is of
// the window, as the kernel's Reno, and not of the flight.
#define LAW balia
#include "shared.h"

PROGRAMS
STATE

SEC("struct_ops/avoid") void balia_avoid(__u64 *context)
{
	struct rates rates;
	struct step step;
	__u32 own, srtt;

	if (!prepare(&step, context))
		return;
	gather(step.connection->rows, &rates);
	own = step.row->window;
	srtt = step.row->srtt;
	advance(&step, balia_growth(&rates, rate_of(own, srtt), own));
}

SEC("struct_ops/reduce") __u32 balia_reduce(__u64 *context)
{
	struct tcp_sock *tp = TP(context);
	struct own *own = own_of(tp);
	struct connection *connection = connection_of(own);
	struct rates rates;
	struct row *row;
	__u32 window, least;

	if (!connection)
		return half(tp, 2);
	row = row_of(connection, own);
	publish(tp, own, row);
	gather(connection->rows, &rates);
	window = balia_reduced(&rates, rate_of(row->window, row->srtt), tp->snd_cwnd);
	least = least_threshold(connection);
	window = window > least ? window : least;
	note_reduced(own, row, window);
	return window;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops OPS = {
	COMMON,
	.cong_avoid = (void *)balia_avoid,
	.ssthresh = (void *)balia_reduce,
	.set_state = (void *)ab_state,
};
