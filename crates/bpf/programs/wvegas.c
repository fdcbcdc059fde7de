// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// wVegas, weighted Vegas: the subflows of a connection together keep ten segments in queues, each in proportion to its rate (Cao, Xu,
// Fu, ICNP 2012; draft-xu-mptcp-congestion-control-05; crates/stack/src/congestion/wvegas.rs). Reductions are Reno's.
//
// A connection with a single subflow follows it too. One that falls back to TCP after its handshake stays at it.
#define LAW wvegas
#include "shared.h"

PROGRAMS

// Restarts the measurement of a round trip, and ignores the one that has begun.
ALWAYS void restart(struct own *own)
{
	own->samples = 0;
	own->sum = 0;
	own->acked = 0;
	own->partial = 1;
}

SEC("struct_ops/sample") void wvegas_sample(__u64 *context)
{
	struct own *own = own_of(TP(context));
	const struct ack_sample *sample = (const struct ack_sample *)context[1];
	__s32 rtt = sample->rtt_us;

	own->acked += sample->pkts_acked;
	if (rtt < 0)
		return;
	if (!rtt)
		rtt = 1;
	if (!own->vegas.base || (__u32)rtt < own->vegas.base)
		own->vegas.base = rtt;
	own->samples++;
	own->sum += rtt;
}

// Sets the window in 1/256 segment to at least 2 segments, with a threshold of at least three quarters of them.
ALWAYS void settle(struct tcp_sock *tp, struct own *own, __u32 window, __u32 threshold)
{
	__u32 segments, least;

	if (window < VEGAS_LEAST)
		window = VEGAS_LEAST;
	segments = window / SEGMENT;
	if (segments > tp->snd_cwnd_clamp)
		segments = tp->snd_cwnd_clamp;
	own->fraction = (__s64)(window % SEGMENT) << (GROWTH_BITS - WINDOW_BITS);
	tp->snd_cwnd = segments;
	least = segments * 3 / 4;
	if (least < 2)
		least = 2;
	tp->snd_ssthresh = threshold > least ? threshold : least;
}

// Ends a round trip. Returns true if the acknowledgement changes nothing else.
ALWAYS bool end_round(struct tcp_sock *tp, struct own *own, struct connection *connection, bool limited)
{
	__u32 rtt, acked = own->acked, samples = own->samples, partial = own->partial, threshold = tp->snd_ssthresh;
	__u32 window = in_row(tp->snd_cwnd) + (__u32)(own->fraction >> (GROWTH_BITS - WINDOW_BITS)), after;
	__u64 sum = own->sum, others = 0, rate;
	struct row *row = row_of(connection, own);
	struct vegas vegas;

	own->round_end = tp->snd_nxt;
	restart(own);
	own->partial = 0;
	if (partial)
		return 0;
	if (samples < VEGAS_ENOUGH) {
		// Reno's growth of a round trip.
		if (in_slow_start(tp) || !limited)
			return 0;
		window += acked < tp->snd_cwnd ? acked * SEGMENT / tp->snd_cwnd : SEGMENT;
		settle(tp, own, window, threshold);
		return 1;
	}
	rtt = sum / samples;
	if (in_slow_start(tp)) {
		__u32 target;

		if (queued(window, rtt, own->vegas.base) <= VEGAS_GAMMA)
			return 0;
		target = rtt ? (__u64)window * own->vegas.base / rtt + SEGMENT : window;
		window = target < window ? target : window;
		settle(tp, own, window, threshold < window / SEGMENT ? threshold : window / SEGMENT);
		row->starting = 0;
		return 1;
	}
#pragma unroll
	for (__u32 k = 0; k < ROWS; k++)
		if (k != own->index)
			others += *(volatile __u64 *)&connection->rows[k].rate;
	vegas = own->vegas;
	rate = row->rate;
	after = wvegas_window(&vegas, &rate, others, window, rtt, limited, &threshold);
	own->vegas = vegas;
	row->rate = rate;
	settle(tp, own, after, threshold);
	return 1;
}

SEC("struct_ops/avoid") void wvegas_avoid(__u64 *context)
{
	struct tcp_sock *tp = TP(context);
	struct own *own = own_of(tp);
	struct connection *connection = connection_of(own);
	__u32 ack = context[1], acked = context[2];
	struct row *row;
	bool limited;

	if (!connection) {
		tcp_reno_cong_avoid(SK(context), ack, acked);
		return;
	}
	row = row_of(connection, own);
	give_up(tp, own, row);
	limited = is_limited(tp);
	if ((__s32)(ack - own->round_end) > 0 && end_round(tp, own, connection, limited)) {
		publish(tp, own, row);
		return;
	}
	if (limited && in_slow_start(tp)) {
		__u32 ignored = own->ignored < acked ? own->ignored : acked;

		own->ignored -= ignored;
		if (acked > ignored)
			tcp_slow_start(tp, acked - ignored);
		row->starting &= in_slow_start(tp);
	}
	publish(tp, own, row);
}

SEC("struct_ops/reduce") __u32 wvegas_reduce(__u64 *context)
{
	return reduce_to_half(context);
}

// Forgets the rate and the target: as in the kernel module, every interruption restarts the measurement.
ALWAYS void forget(struct own *own, struct connection *connection)
{
	own->vegas.alpha = 0;
	own->vegas.queueing = 0;
	if (connection)
		row_of(connection, own)->rate = 0;
}

SEC("struct_ops/state") void wvegas_state(__u64 *context)
{
	struct tcp_sock *tp = TP(context);
	struct own *own = own_of(tp);
	__u32 now = context[1], before = READ_BITS(tp, inet_conn.icsk_ca_state);

	if (now > TCP_CA_DISORDER || before > TCP_CA_DISORDER)
		restart(own);
	if (now == TCP_CA_LOSS || (now == TCP_CA_OPEN && before > TCP_CA_DISORDER))
		forget(own, connection_of(own));
	if (now == TCP_CA_OPEN || now == TCP_CA_LOSS)
		changed(tp);
}

SEC("struct_ops/event") void wvegas_event(__u64 *context)
{
	struct own *own = own_of(TP(context));

	// After an idle time the route may have changed.
	if ((__u32)context[1] == CA_EVENT_CWND_RESTART) {
		restart(own);
		own->vegas.base = 0;
		forget(own, connection_of(own));
	}
}

SEC(".struct_ops.link")
struct tcp_congestion_ops OPS = {
	COMMON,
	.cong_avoid = (void *)wvegas_avoid,
	.ssthresh = (void *)wvegas_reduce,
	.set_state = (void *)wvegas_state,
	.cwnd_event = (void *)wvegas_event,
	.pkts_acked = (void *)wvegas_sample,
};
