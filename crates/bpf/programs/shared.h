// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The parts that the coupled congestion controls share: finding the connection of a subflow, the rows of its subflows, growth by
// fractions of a segment, and LISA.
//
// Each law is an object of its own with a map from the token of a connection to its rows. A subflow takes a row in `init`
// and gives it back in `release`; the last one removes the connection. A plain TCP, a connection that fell back to TCP, and
// a subflow without a row (the map or the rows are full) grow and shrink as the kernel's Reno, and are counted.
//
// Concurrency: the kernel calls all programs of a subflow under the lock of its socket, and two subflows may run at once. The
// lock of a connection protects which rows are in use. The contents of a row are written by its subflow only, each field by
// one store; others read them without a lock, and may combine a window with the round trip before it, which is as good.
// The exception is `taken`, which changes atomically.
#ifndef ANABRANCH_SHARED_H
#define ANABRANCH_SHARED_H

#include "kernel.h"
#include "laws.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Links the slow starts of the subflows (LISA). The loader may set it: the section has nothing else.
const volatile __u32 lisa SEC(".rodata.lisa") = 0;

// The subflows that share a token.
struct connection {
	struct bpf_spin_lock lock;
	// One bit for each row in use. No row is ever used again after the last has gone, as the entry is removed.
	__u32 used;
	__u32 gone;
	struct row rows[ROWS];
};

// Counted since the program was loaded.
struct counters {
	// Subflows with a row, and the ones among them that came to a connection with another.
	__u64 subflows, joined;
	// Rows that were given back, and connections that were made and removed.
	__u64 ended, connections, removed;
	// Not coupled: plain TCP, fallback to TCP, no place for a connection, no row, and the end of the connection at the same time.
	__u64 plain, fallback, full, crowded, raced;
};

#define MAP_NAME_(law, what) mp_##law##_##what
#define MAP_NAME(law, what) MAP_NAME_(law, what)
#define CONNECTIONS MAP_NAME(LAW, conns)
#define COUNTERS MAP_NAME(LAW, count)

// Without preallocation, so that a host pays for the connections that it has.
struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[65536];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	__u32 *key;
	struct connection *value;
} CONNECTIONS SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	__u32 *key;
	struct counters *value;
} COUNTERS SEC(".maps");

// A new entry; larger than the stack should hold.
static const char EMPTY[sizeof(struct connection)] __attribute__((aligned(8)));

#define COUNT(field)                                                                                                   \
	do {                                                                                                           \
		__u32 zero_ = 0;                                                                                       \
		struct counters *counters_ = bpf_map_lookup_elem(&COUNTERS, &zero_);                                   \
		if (counters_)                                                                                         \
			__sync_fetch_and_add(&counters_->field, 1);                                                    \
	} while (0)

// The state of one subflow, in `icsk_ca_priv`, which has 104 bytes.
struct own {
	// The part of the window below one segment, in 2^-GROWTH_BITS.
	__s64 fraction;
	__u32 token;
	__u32 index;
	__u32 coupled;
	// LISA: the acknowledged segments that do not increase the window.
	__u32 ignored;
	// OLIA: `delivered` of the socket at the last loss, and the segments delivered between the last two.
	__u32 at_loss, before;
	// wVegas: the round trip that is being measured.
	__u32 round_end, samples, acked, partial;
	__u64 sum;
	struct vegas vegas;
};

_Static_assert(sizeof(struct own) <= 104, "icsk_ca_priv");

// A step of a coupled subflow in congestion avoidance.
struct step {
	struct tcp_sock *tp;
	struct own *own;
	struct connection *connection;
	struct row *row;
	__u32 acked;
};

ALWAYS struct own *own_of(struct tcp_sock *tp)
{
	return (struct own *)tp->inet_conn.icsk_ca_priv;
}

// Returns the entry of a subflow with a row.
ALWAYS struct connection *connection_of(struct own *own)
{
	__u32 token = own->token;

	return own->coupled ? bpf_map_lookup_elem(&CONNECTIONS, &token) : 0;
}

ALWAYS struct row *row_of(struct connection *connection, struct own *own)
{
	return &connection->rows[own->index % ROWS];
}

ALWAYS __u32 in_row(__u32 segments)
{
	return segments < WINDOW_MOST / SEGMENT ? segments * SEGMENT : WINDOW_MOST;
}

// Writes the window and the round trip where the other subflows read them.
ALWAYS void publish(struct tcp_sock *tp, struct own *own, struct row *row)
{
	row->window = in_row(tp->snd_cwnd) + (__u32)(own->fraction >> (GROWTH_BITS - WINDOW_BITS));
	row->srtt = tp->srtt_us >> 3;
}

ALWAYS bool in_slow_start(struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

// True if the window is used, as `tcp_is_cwnd_limited` of include/net/tcp.h.
ALWAYS bool is_limited(struct tcp_sock *tp)
{
	if (READ_BITS(tp, is_cwnd_limited))
		return 1;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

// LISA (draft-barik-mptcp-lisa-01, as crates/stack/src/congestion/lisa.rs): takes the initial window of a new subflow from the
// fastest of the others that is in its first slow start.
ALWAYS void share_slow_start(struct tcp_sock *tp, struct connection *connection, __u32 index)
{
	__u32 donor = ROWS, segments = 0, initial = tp->snd_cwnd, taken;
	__u64 fastest = 0;

#pragma unroll
	for (__u32 k = 0; k < ROWS; k++) {
		struct row *row = &connection->rows[k];
		__u64 rate = k != index && row->starting ? rate_of(row->window, row->srtt) : 0;

		if (rate > fastest) {
			fastest = rate;
			donor = k;
			segments = row->window / SEGMENT;
			segments = segments > row->taken ? segments - row->taken : 0;
		}
	}
	if (donor >= ROWS)
		return;
	taken = segments >= 20 ? 10 : segments >= 6 ? segments / 2 : 0;
	taken = taken < initial ? taken : initial;
	if (taken) {
		tp->snd_cwnd = taken;
		__sync_fetch_and_add(&connection->rows[donor % ROWS].taken, taken);
	} else if (initial > 3) {
		tp->snd_cwnd = 3;
	}
}

// LISA: gives up what a new subflow has taken.
ALWAYS void give_up(struct tcp_sock *tp, struct own *own, struct row *row)
{
	__u32 taken, window = tp->snd_cwnd, in_flight;

	if (!lisa || !row->taken)
		return;
	taken = row->taken;
	__sync_fetch_and_add(&row->taken, -taken);
	window = window > taken ? window - taken : 1;
	in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
	tp->snd_cwnd = window;
	own->ignored = in_flight > window ? in_flight - window : 0;
}

// Takes a row for a new subflow.
ALWAYS void begin(struct tcp_sock *tp)
{
	struct own *own = own_of(tp);
	struct mptcp_subflow_context *subflow = tp->inet_conn.icsk_ulp_data;
	struct connection *connection;
	__u32 token = 0, index = ROWS, gone, others;

	__builtin_memset(own, 0, sizeof(*own));
	own->at_loss = tp->delivered;
	own->round_end = tp->snd_nxt;
	own->partial = 1;
	if (!tp->is_mptcp || !subflow) {
		COUNT(plain);
		return;
	}
	bpf_probe_read_kernel(&token, sizeof(token), &subflow->token);
	if (!token || !(PROBE_BITS(subflow, mp_capable) || PROBE_BITS(subflow, mp_join))) {
		COUNT(fallback);
		return;
	}
	connection = bpf_map_lookup_elem(&CONNECTIONS, &token);
	if (!connection) {
		// Another subflow may be faster, and then the entry is there too.
		if (!bpf_map_update_elem(&CONNECTIONS, &token, EMPTY, BPF_NOEXIST))
			COUNT(connections);
		connection = bpf_map_lookup_elem(&CONNECTIONS, &token);
		if (!connection) {
			COUNT(full);
			return;
		}
	}
	bpf_spin_lock(&connection->lock);
	gone = connection->gone;
	others = connection->used;
	if (!gone) {
#pragma unroll
		for (__u32 k = 0; k < ROWS; k++)
			if (index == ROWS && !(others >> k & 1))
				index = k;
		if (index < ROWS)
			connection->used = others | 1u << index;
	}
	bpf_spin_unlock(&connection->lock);
	if (gone) {
		COUNT(raced);
		return;
	}
	if (index >= ROWS) {
		COUNT(crowded);
		return;
	}
	own->token = token;
	own->index = index;
	own->coupled = 1;
	COUNT(subflows);
	if (others) {
		COUNT(joined);
		if (lisa)
			share_slow_start(tp, connection, index);
	}
	row_of(connection, own)->starting = in_slow_start(tp);
	publish(tp, own, row_of(connection, own));
}

// Gives the row of a subflow back.
ALWAYS void end(struct tcp_sock *tp)
{
	struct own *own = own_of(tp);
	struct connection *connection = connection_of(own);
	__u32 token = own->token, index = own->index % ROWS, last;
	struct row *row;

	if (!connection)
		return;
	own->coupled = 0;
	row = &connection->rows[index];
	bpf_spin_lock(&connection->lock);
	row->window = 0;
	row->srtt = 0;
	row->delivered = 0;
	row->rate = 0;
	row->taken = 0;
	row->starting = 0;
	connection->used &= ~(1u << index);
	last = !connection->used;
	connection->gone |= last;
	bpf_spin_unlock(&connection->lock);
	COUNT(ended);
	if (last && !bpf_map_delete_elem(&CONNECTIONS, &token))
		COUNT(removed);
}

// True if no other subflow has a row.
ALWAYS bool is_alone(struct connection *connection)
{
	__u32 used = *(volatile __u32 *)&connection->used;

	return !(used & (used - 1));
}

// Acts on an acknowledgement as all but wVegas do, and returns true if the law decides the growth.
ALWAYS bool prepare(struct step *step, __u64 *context)
{
	struct tcp_sock *tp = TP(context);
	struct own *own = own_of(tp);
	struct connection *connection = connection_of(own);
	__u32 acked = context[2];
	struct row *row;

	if (!connection) {
		tcp_reno_cong_avoid(SK(context), context[1], acked);
		return 0;
	}
	row = row_of(connection, own);
	give_up(tp, own, row);
	if (!is_limited(tp)) {
		publish(tp, own, row);
		return 0;
	}
	if (in_slow_start(tp)) {
		__u32 ignored = own->ignored < acked ? own->ignored : acked;

		own->ignored -= ignored;
		acked -= ignored;
		if (acked)
			acked = tcp_slow_start(tp, acked);
		row->starting &= in_slow_start(tp);
	}
	if (acked && is_alone(connection)) {
		// Every law here is Reno's for a single subflow.
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
		acked = 0;
	}
	step->tp = tp;
	step->own = own;
	step->connection = connection;
	step->row = row;
	step->acked = acked;
	publish(tp, own, row);
	return acked;
}

// Changes the window by `growth` for each acknowledged segment.
ALWAYS void advance(struct step *step, __s64 growth)
{
	struct tcp_sock *tp = step->tp;
	struct own *own = step->own;
	__u32 acked = step->acked < 65536 ? step->acked : 65535;
	__s64 fraction = own->fraction + growth * acked;
	__s64 window = (__s64)tp->snd_cwnd + (fraction >> GROWTH_BITS);

	fraction &= (1ll << GROWTH_BITS) - 1;
	if (window > tp->snd_cwnd_clamp) {
		window = tp->snd_cwnd_clamp;
		fraction = 0;
	}
	if (window < 1) {
		window = 1;
		fraction = 0;
	}
	own->fraction = fraction;
	tp->snd_cwnd = window;
	publish(tp, own, step->row);
}

// Notes the reduction to `segments`, which the sums have during the repair (RFC 6356 section 3).
ALWAYS void note_reduced(struct own *own, struct row *row, __u32 segments)
{
	own->fraction = 0;
	own->ignored = 0;
	row->starting = 0;
	row->window = in_row(segments);
}

// The threshold of Reno.
ALWAYS __u32 half(struct tcp_sock *tp, __u32 least)
{
	__u32 half = tp->snd_cwnd / 2;

	return half > least ? half : least;
}

// Returns half of the window, and notes it as the reduction of a coupled subflow.
ALWAYS __u32 reduce_to_half(__u64 *context)
{
	struct own *own = own_of(TP(context));
	struct connection *connection = connection_of(own);
	__u32 window = half(TP(context), 2);

	if (connection)
		note_reduced(own, row_of(connection, own), window);
	return window;
}

// The minimum threshold of the drafts of OLIA and BALIA: 1 segment while there are several subflows.
ALWAYS __u32 least_threshold(struct connection *connection)
{
	return is_alone(connection) ? 2 : 1;
}

// Publishes the window that a timeout or the end of a repair has left.
ALWAYS void changed(struct tcp_sock *tp)
{
	struct own *own = own_of(tp);
	struct connection *connection = connection_of(own);

	if (connection)
		publish(tp, own, row_of(connection, own));
}

// The programs that are the same for all laws, and the registration.
#define PROGRAMS                                                                                                       \
	SEC("struct_ops/begin") void ab_begin(__u64 *context)                                                          \
	{                                                                                                              \
		begin(TP(context));                                                                                    \
	}                                                                                                              \
                                                                                                                       \
	SEC("struct_ops/end") void ab_end(__u64 *context)                                                              \
	{                                                                                                              \
		end(TP(context));                                                                                      \
	}                                                                                                              \
                                                                                                                       \
	SEC("struct_ops/undo") __u32 ab_undo(__u64 *context)                                                           \
	{                                                                                                              \
		return tcp_reno_undo_cwnd(SK(context));                                                                \
	}

// The handling of a change of state of all laws but wVegas.
#define STATE                                                                                                          \
	SEC("struct_ops/state") void ab_state(__u64 *context)                                                          \
	{                                                                                                              \
		if (context[1] == TCP_CA_OPEN || context[1] == TCP_CA_LOSS)                                            \
			changed(TP(context));                                                                          \
	}

#define STRING_(text) #text
#define STRING(text) STRING_(text)
#define OPS MAP_NAME(LAW, ops)

#define COMMON                                                                                                         \
	.init = (void *)ab_begin, .release = (void *)ab_end, .undo_cwnd = (void *)ab_undo,                             \
	.flags = TCP_CONG_NON_RESTRICTED, .name = "mp_" STRING(LAW)

#endif
