// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The parts of the kernel that these programs use: the members of structures, which are found in each kernel by its
// BTF (CO-RE), helpers and functions. So neither a vmlinux.h nor the headers of libbpf are needed to compile them.
#ifndef ANABRANCH_KERNEL_H
#define ANABRANCH_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define KERNEL __attribute__((section(".ksyms")))
#define ALWAYS static inline __attribute__((always_inline))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// Never read: a program's socket is a tcp_sock.
struct sock {
};

struct inet_connection_sock {
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5;
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_nxt;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 delivered;
	__u32 max_packets_out;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u8 is_cwnd_limited : 1;
	bool is_mptcp;
};

struct mptcp_subflow_context {
	__u32 token;
	__u32 mp_capable : 1;
	__u32 mp_join : 1;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *);
	void (*cong_avoid)(struct sock *, __u32, __u32);
	void (*set_state)(struct sock *, __u8);
	void (*cwnd_event)(struct sock *, int);
	void (*pkts_acked)(struct sock *, const struct ack_sample *);
	__u32 (*undo_cwnd)(struct sock *);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *);
	void (*release)(struct sock *);
};

#pragma clang attribute pop

// enum tcp_ca_state and enum tcp_ca_event of include/net/tcp.h.
#define TCP_CA_OPEN 0
#define TCP_CA_DISORDER 1
#define TCP_CA_LOSS 4
#define CA_EVENT_CWND_RESTART 1
// A congestion control that a program without CAP_NET_ADMIN may choose.
#define TCP_CONG_NON_RESTRICTED 1

// Helpers, by their numbers in include/uapi/linux/bpf.h.
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*bpf_spin_lock)(void *lock) = (void *)93;
static long (*bpf_spin_unlock)(void *lock) = (void *)94;
static long (*bpf_probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)113;

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1

// The type of this name in the kernel has a member of this name in a map's value.
struct bpf_spin_lock {
	__u32 value;
};

// Functions of the kernel (net/ipv4/tcp_cong.c), which are found by name.
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) KERNEL;
extern __u32 tcp_reno_ssthresh(struct sock *sk) KERNEL;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) KERNEL;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 window, __u32 acked) KERNEL;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) KERNEL;

// Kinds of information of __builtin_preserve_field_info.
#define FIELD_BYTE_OFFSET 0
#define FIELD_BYTE_SIZE 1
#define FIELD_LSHIFT_U64 4
#define FIELD_RSHIFT_U64 5

// Reads an unsigned bit field of a pointer that the verifier knows.
#define READ_BITS(from, field)                                                                                         \
	({                                                                                                             \
		const void *place_ = (const void *)(from) + __builtin_preserve_field_info((from)->field, FIELD_BYTE_OFFSET); \
		__u64 bits_ = 0;                                                                                       \
		switch (__builtin_preserve_field_info((from)->field, FIELD_BYTE_SIZE)) {                               \
		case 1:                                                                                                \
			bits_ = *(const volatile __u8 *)place_;                                                        \
			break;                                                                                         \
		case 2:                                                                                                \
			bits_ = *(const volatile __u16 *)place_;                                                       \
			break;                                                                                         \
		case 4:                                                                                                \
			bits_ = *(const volatile __u32 *)place_;                                                       \
			break;                                                                                         \
		case 8:                                                                                                \
			bits_ = *(const volatile __u64 *)place_;                                                       \
			break;                                                                                         \
		}                                                                                                      \
		bits_ <<= __builtin_preserve_field_info((from)->field, FIELD_LSHIFT_U64);                              \
		bits_ >>= __builtin_preserve_field_info((from)->field, FIELD_RSHIFT_U64);                              \
		bits_;                                                                                                 \
	})

// Reads an unsigned bit field of a pointer that is a number for the verifier.
#define PROBE_BITS(from, field)                                                                                        \
	({                                                                                                             \
		__u64 bits_ = 0;                                                                                       \
		bpf_probe_read_kernel(&bits_, __builtin_preserve_field_info((from)->field, FIELD_BYTE_SIZE),           \
				      (const void *)(from) +                                                           \
					      __builtin_preserve_field_info((from)->field, FIELD_BYTE_OFFSET));        \
		bits_ <<= __builtin_preserve_field_info((from)->field, FIELD_LSHIFT_U64);                              \
		bits_ >>= __builtin_preserve_field_info((from)->field, FIELD_RSHIFT_U64);                              \
		bits_;                                                                                                 \
	})

// The arguments of a program are an array of 64-bit words.
#define SK(context) ((struct sock *)(context)[0])
#define TP(context) ((struct tcp_sock *)(context)[0])

#endif
