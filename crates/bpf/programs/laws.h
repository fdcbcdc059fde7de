// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The arithmetic of the coupled congestion controls, for BPF programs and for the host, where a test compares it
// with the laws of crates/stack/src/congestion.
//
// Decides the growth and the reduction of a window, from the windows and the smoothed round trips of all subflows of a
// connection. With x = w / R and p = x / sum x, all growths per acknowledged segment are of one form:
//
//   LIA    min(max p_k^2 / w_k, 1 / w)              RFC 6356 section 3
//   OLIA   p^2 / w + alpha / w                      draft-khalili-mptcp-congestion-control-05
//   BALIA  (p + p_max) (4 p + p_max) / (10 w)       draft-walid-mptcp-congestion-control-04
//
// because (w / R^2) / (sum x)^2 = p^2 / w. A BPF program has neither floating point nor 128 bits, and this form stays
// within 64 bits for each window and round trip that TCP can have, without a common scale.
//
// Units: windows in 1/256 segment, round trips in microseconds, growth in 2^-44 segment, shares p in 2^-30.
//
// Departures from crates/stack: integers round down, by less than 1 % in all (the test of the crate prints the bound);
// two paths of OLIA are equally good if their l / R^2 are, within 2^-16 of the best.
#ifndef ANABRANCH_LAWS_H
#define ANABRANCH_LAWS_H

// A function that the verifier of the kernel checks once, with any arguments, and not again for each of its calls.
#ifdef __bpf__
#define APART __attribute__((noinline))
#else
#define APART static
#endif

// The subflows of a connection that are coupled. The kernel's path manager makes at most 8.
#define ROWS 8
#define WINDOW_BITS 8
#define SHARE_BITS 30
#define GROWTH_BITS 44
// A window above this counts as this, in 1/256 segment: 2^20 segments.
#define WINDOW_MOST (1u << 28)
#define SEGMENT (1u << WINDOW_BITS)

// The state of a subflow that the others of its connection read.
struct row {
	// The congestion window in 1/256 segment, in a repair the one after it; 0 marks a free row.
	__u32 window;
	// The smoothed round trip in microseconds; 0 before the first sample.
	__u32 srtt;
	// OLIA: l, the bytes delivered since the last loss, or between the last two if these are more.
	__u64 delivered;
	// wVegas: the recorded rate, as `rate_of`; 0 without one.
	__u64 rate;
	// LISA: the segments that a joining subflow has taken, and this one has not given up yet.
	__u32 taken;
	// LISA: 1 in the first slow start.
	__u32 starting;
};

// The rates of all subflows, x in 2^-32 segment (of 1/256) per microsecond.
struct rates {
	__u64 x[ROWS];
	__u32 window[ROWS];
	__u64 sum;
	__u64 largest;
};

// Returns the rate of a window over a round trip.
APART __u64 rate_of(__u32 window, __u32 rtt)
{
	if (window > WINDOW_MOST)
		window = WINDOW_MOST;
	return rtt ? ((__u64)window << 32) / rtt : 0;
}

// Returns the number of bits of `value`.
APART __u32 length(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32) {
		bits += 32;
		value >>= 32;
	}
	if (value >> 16) {
		bits += 16;
		value >>= 16;
	}
	if (value >> 8) {
		bits += 8;
		value >>= 8;
	}
	if (value >> 4) {
		bits += 4;
		value >>= 4;
	}
	if (value >> 2) {
		bits += 2;
		value >>= 2;
	}
	if (value >> 1) {
		bits += 1;
		value >>= 1;
	}
	return bits + (__u32)value;
}

// Returns `part` / `whole` in 2^-SHARE_BITS, for a `part` of at most twice `whole`.
APART __u64 ratio(__u64 part, __u64 whole)
{
	__u32 bits = length(part);

	// 33 bits of `part` remain, and as many of `whole` as it has more.
	bits = bits > 33 ? bits - 33 : 0;
	part >>= bits;
	whole >>= bits;
	return whole ? (part << SHARE_BITS) / whole : 0;
}

// Reads the rows: those with a window and a round trip take part.
static inline void gather(const struct row *rows, struct rates *rates)
{
	rates->sum = 0;
	rates->largest = 0;
#pragma unroll
	for (__u32 k = 0; k < ROWS; k++) {
		// Another processor may change a row meanwhile, so each field is read once. The window and the round trip may
		// then be of two successive acknowledgements, and each is one that the subflow has had.
		__u32 window = *(volatile const __u32 *)&rows[k].window;
		__u32 srtt = *(volatile const __u32 *)&rows[k].srtt;
		__u64 x = rate_of(window, srtt);

		rates->window[k] = window;
		rates->x[k] = x;
		rates->sum += x;
		if (x > rates->largest)
			rates->largest = x;
	}
}

// Returns p^2 / w in 2^-GROWTH_BITS.
APART __u64 own_term(__u64 x, __u64 sum, __u32 window)
{
	__u64 share = ratio(x, sum);

	// The division by 1/256 segment takes WINDOW_BITS away.
	return window ? ((share * share) >> (2 * SHARE_BITS - GROWTH_BITS - WINDOW_BITS)) / window : 0;
}

// Returns 1 / w in 2^-GROWTH_BITS, the growth of Reno.
static inline __u64 reno_growth(__u32 window)
{
	return window ? (1ull << (GROWTH_BITS + WINDOW_BITS)) / window : 0;
}

// LIA: returns the growth per acknowledged segment of a window of `own`.
static inline __u64 lia_growth(const struct rates *rates, __u32 own)
{
	__u64 most = reno_growth(own), best = 0;

#pragma unroll
	for (__u32 k = 0; k < ROWS; k++) {
		__u64 term = rates->x[k] ? own_term(rates->x[k], rates->sum, rates->window[k]) : 0;

		if (term > best)
			best = term;
	}
	return best && best < most ? best : most;
}

// OLIA: returns l / R^2 with l shifted by `bits`.
APART __u64 quality(__u64 delivered, __u32 srtt, __u32 bits)
{
	return srtt ? (delivered << bits) / srtt / srtt : 0;
}

// Returns 1 if `a` is at least `b`, and else 0, for numbers below 2^63. It has no branch, so that the verifier does not follow both
// for each pair of rows.
static inline __u64 at_least(__u64 a, __u64 b)
{
	__u64 less = (a - b) >> 63;

	// The compiler may not make a branch of it.
	asm("" : "+r"(less));
	return less ^ 1;
}

static inline __u64 larger(__u64 a, __u64 b)
{
	__u64 which = at_least(a, b);

	return a * which + b * (which ^ 1);
}

// OLIA: returns the growth per acknowledged segment of the subflow at `index`, which may be negative.
static inline __s64 olia_growth(const struct row *rows, const struct rates *rates, __u32 index)
{
	__u64 q[ROWS], best = 0, longest = 0, largest = 0, x = 0, own = 0, n = 0, in_m = 0, in_b_only = 0, i_am_m = 0, i_am_b = 0;
	__u64 term, alpha;
	__u32 bits;

#pragma unroll
	for (__u32 k = 0; k < ROWS; k++) {
		__u64 is_mine = at_least(k, index) & at_least(index, k);

		q[k] = *(volatile const __u64 *)&rows[k].delivered;
		longest = larger(longest, q[k] * at_least(rates->x[k], 1));
		x += rates->x[k] * is_mine;
		own += rates->window[k] * is_mine;
	}
	// As precise as 63 bits allow.
	bits = length(longest);
	bits = bits < 63 ? 63 - bits : 0;
#pragma unroll
	for (__u32 k = 0; k < ROWS; k++) {
		__u64 counts = at_least(rates->x[k], 1);

		n += counts;
		q[k] = quality(q[k], *(volatile const __u32 *)&rows[k].srtt, bits);
		best = larger(best, q[k] * counts);
		largest = larger(largest, rates->window[k] / SEGMENT * counts);
	}
#pragma unroll
	for (__u32 k = 0; k < ROWS; k++) {
		__u64 is_mine = at_least(k, index) & at_least(index, k), counts = at_least(rates->x[k], 1);
		__u64 m = counts & at_least(rates->window[k] / SEGMENT, largest);
		__u64 b = counts & (m ^ 1) & at_least(q[k], best - (best >> 16));

		in_m += m;
		in_b_only += b;
		i_am_m |= m & is_mine;
		i_am_b |= b & is_mine;
	}
	if (!x)
		return reno_growth(own);
	term = own_term(x, rates->sum, own);
	alpha = reno_growth(own);
	if (!in_b_only)
		return term;
	if (i_am_b)
		return term + alpha / (n * in_b_only);
	return i_am_m ? (__s64)term - (__s64)(alpha / (n * in_m)) : (__s64)term;
}

// BALIA: returns the growth per acknowledged segment of a subflow with the rate `x` and a window of `own`.
static inline __u64 balia_growth(const struct rates *rates, __u64 x, __u32 own)
{
	__u64 share, most;

	if (!x || !own)
		return reno_growth(own);
	share = ratio(x, rates->sum);
	most = ratio(rates->largest, rates->sum);
	// At most (1 + 1) (4 + 1), below 2^64 with shares of 2^30.
	return (((share + most) * (4 * share + most)) >> (2 * SHARE_BITS - GROWTH_BITS)) * SEGMENT / own / 10;
}

// BALIA: returns the window in segments after a loss in one of `segments`.
static inline __u32 balia_reduced(const struct rates *rates, __u64 x, __u32 segments)
{
	// The part that remains, 1 - min(alpha, 3 / 2) / 2, in 2^-SHARE_BITS.
	__u64 kept = 1ull << (SHARE_BITS - 1);

	if (x) {
		__u64 limit = 3ull << (SHARE_BITS - 1);
		__u64 alpha = rates->largest / 2 >= x ? limit : ratio(rates->largest, x);

		kept = (1ull << SHARE_BITS) - (alpha < limit ? alpha : limit) / 2;
	}
	return ((__u64)segments * kept) >> SHARE_BITS;
}

// wVegas: the measurements of a round trip, in microseconds, and the state between round trips.
struct vegas {
	// The minimum round trip.
	__u32 base;
	// The target of this subflow in 1/256 segment; 0 before it is computed.
	__u32 alpha;
	// The minimum queueing delay since the last draining, in microseconds; 0 before the first.
	__u32 queueing;
};

#define VEGAS_TOTAL (10 * SEGMENT)
#define VEGAS_LEAST (2 * SEGMENT)
#define VEGAS_GAMMA SEGMENT
#define VEGAS_ENOUGH 3

// Returns the part of a window that is in queues, w (rtt - base) / rtt, in the unit of the window.
static inline __u32 queued(__u32 window, __u32 rtt, __u32 base)
{
	return rtt ? (__u64)window * (rtt - base) / rtt : 0;
}

// wVegas: returns the window after a round trip in congestion avoidance, of the mean `rtt`. `others` is the sum of the rates that
// the other subflows have recorded; `*rate` is the one of this. `*threshold`, in segments, follows a step down. It does not follow
// the draining of the queue, so that slow start leads back to the window that the path had.
static inline __u32 wvegas_window(struct vegas *vegas, __u64 *rate, __u64 others, __u32 window, __u32 rtt, int limited,
				  __u32 *threshold)
{
	__u32 in_queue = queued(window, rtt, vegas->base);
	__u32 alpha = vegas->alpha ? vegas->alpha : VEGAS_LEAST;
	__u32 delay = rtt - vegas->base;

	if (in_queue >= alpha) {
		__u64 target;

		*rate = rate_of(window, rtt);
		target = (ratio(*rate, *rate + others) * VEGAS_TOTAL) >> SHARE_BITS;
		alpha = target > VEGAS_LEAST ? target : VEGAS_LEAST;
		vegas->alpha = alpha;
	}
	if (in_queue > alpha) {
		window = window > SEGMENT ? window - SEGMENT : 0;
		if (window / SEGMENT < *threshold)
			*threshold = window / SEGMENT;
	} else if (in_queue < alpha && limited) {
		window += SEGMENT;
	}
	if (!vegas->queueing || delay < vegas->queueing)
		vegas->queueing = delay;
	if (delay && delay / 2 >= vegas->queueing && rtt) {
		window = (__u64)window * vegas->base / rtt / 2;
		vegas->queueing = 0;
	}
	return window;
}

#endif
