// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Passes the first copy of a packet and drops those that arrive over other paths (XDP).
 *
 *   wifi ─┐
 *         ├─ hash of the identity (identity.h) ─ seen on another path within the window? ─ yes: drop
 *   lte ──┘                                                                              └ no: record and pass
 *
 * The rule is that of IEC 62439-3 and Linux's PRP: never drop a legitimate packet; a surplus copy is tolerable. So a
 * packet is dropped only if it arrived on ANOTHER path within the window and is new on this path. Two equal packets on
 * one path are two packets.
 *
 * After the lease everything passes: the agent that renews it is gone.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "eliminate.h"
#include "identity.h"

/* One cache line. */
struct bucket {
	struct bpf_spin_lock lock;
	__u8 path[WAYS];	/* of the first copy */
	__u8 seen[WAYS];	/* a bit for each path that has brought a copy */
	__u64 hash[WAYS];	/* the other half of the hash is the index of the bucket */
	__u64 first_ns[WAYS];	/* 0: free */
};
_Static_assert(sizeof(struct bucket) == 64, "a bucket is longer than a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 16);	/* the agent may resize it to another power of two */
	__uint(map_flags, BPF_F_MMAPABLE);	/* the kernel then aligns the first bucket to a page */
	__type(key, __u32);
	__type(value, struct bucket);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PATHS_MAX);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

enum verdict { FIRST, COPY, LATE, ROGUE };

struct outcome {
	enum verdict verdict;
	__u64 after_ns;		/* the first copy */
	__u32 evicted;		/* path of a first copy that was evicted too early; PATHS_MAX: none */
};

static __always_inline void record(struct bucket *bucket, __u32 way, __u64 hash, __u32 path, __u64 now_ns)
{
	bucket->hash[way] = hash;
	bucket->first_ns[way] = now_ns;
	bucket->path[way] = path;
	bucket->seen[way] = 1 << path;
}

/* The clocks of two CPUs may be read out of order. */
static __always_inline __u64 elapsed(__u64 now_ns, __u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Eviction order: free entries, complete ones (all paths brought a copy), then the oldest. */
static __always_inline __u64 eviction_rank(const struct bucket *bucket, __u32 way, __u32 all_paths)
{
	__u64 first_ns = bucket->first_ns[way];

	return bucket->seen[way] == all_paths || !first_ns ? first_ns : first_ns | 1ULL << 63;
}

/* The caller holds the bucket's lock. */
static __always_inline void classify(struct bucket *bucket, __u64 hash, __u32 path, __u64 now_ns,
				  const struct settings *config, struct outcome *outcome)
{
	__u64 least = ~0ULL, rank;
	__u32 oldest = 0;

	for (__u32 way = 0; way < WAYS; way++) {
		if (bucket->hash[way] != hash || !bucket->first_ns[way])
			continue;
		outcome->after_ns = elapsed(now_ns, bucket->first_ns[way]);
		if (outcome->after_ns > config->window_ns) {
			outcome->verdict = bucket->seen[way] & 1 << path ? FIRST : LATE;
			record(bucket, way, hash, path, now_ns);
		} else if (bucket->seen[way] & 1 << path) {
			outcome->verdict = ROGUE;
			record(bucket, way, hash, path, now_ns);
		} else {
			outcome->verdict = COPY;
			bucket->seen[way] |= 1 << path;
		}
		return;
	}
	for (__u32 way = 0; way < WAYS; way++) {
		rank = eviction_rank(bucket, way, config->all_paths);
		if (rank < least) {
			least = rank;
			oldest = way;
		}
	}
	if (bucket->first_ns[oldest] && elapsed(now_ns, bucket->first_ns[oldest]) <= config->window_ns &&
	    bucket->seen[oldest] != config->all_paths)
		outcome->evicted = bucket->path[oldest];
	outcome->verdict = FIRST;
	record(bucket, oldest, hash, path, now_ns);
}

static __always_inline __u32 skew_step(__u64 skew_ns)
{
	__u32 left, step = 0;

	if (skew_ns >> (SKEW_STEPS - 1))
		return SKEW_STEPS - 1;
	left = skew_ns;
	for (int bits = SKEW_STEPS / 2; bits; bits /= 2) {
		if (left >> bits) {
			left >>= bits;
			step += bits;
		}
	}
	return step;
}

static __always_inline struct counters *counters_of(__u32 path)
{
	return bpf_map_lookup_elem(&counts, &path);
}

static __always_inline int count(struct counters *counters, const struct outcome *outcome)
{
	struct counters *theirs;

	if (outcome->evicted < PATHS_MAX) {
		theirs = counters_of(outcome->evicted);
		if (theirs)
			theirs->evicted++;
	}
	if (outcome->verdict == COPY || outcome->verdict == LATE) /* late copies show that the window is too short */
		counters->skew[skew_step(outcome->after_ns) & (SKEW_STEPS - 1)]++;
	switch (outcome->verdict) {
	case COPY:
		counters->eliminated++;
		return XDP_DROP;
	case LATE:
		counters->late++;
		return XDP_PASS;
	case ROGUE:
		counters->rogue++;
		return XDP_PASS;
	default:
		counters->first++;
		return XDP_PASS;
	}
}

static __always_inline __u32 path_of(const struct settings *config, __u32 device)
{
	for (__u32 path = 0; path < PATHS_MAX; path++) {
		if (config->devices[path] == device)
			return path;
	}
	return PATHS_MAX;
}

SEC("xdp")
int eliminate(struct xdp_md *ctx)
{
	struct outcome outcome = { .evicted = PATHS_MAX };
	__u64 now_ns = bpf_ktime_get_ns();
	struct settings *config;
	struct counters *counters;
	struct bucket *bucket;
	__u32 only = 0, at, path;
	struct nh nh = {};
	__u64 hash[2];

	config = bpf_map_lookup_elem(&settings, &only);
	if (!config || now_ns > config->lease_until_ns)
		return XDP_PASS;
	path = path_of(config, ctx->ingress_ifindex);
	if (path >= PATHS_MAX)
		return XDP_PASS;
	counters = counters_of(path);
	if (!counters)
		return XDP_PASS;
	switch (identify(ctx, &config->macs[path], &nh)) {
	case IDENTIFIED:
		break;
	case UNIDENTIFIED:
		counters->unidentified++;
		return XDP_PASS;
	case NOT_FORWARDED:
		counters->not_forwarded++;
		return XDP_PASS;
	}
	nh_end(&nh, config->secret, hash);
	at = hash[1] & config->buckets_mask;
	bucket = bpf_map_lookup_elem(&seen, &at);
	if (!bucket)
		return XDP_PASS;
	bpf_spin_lock(&bucket->lock);
	classify(bucket, hash[0], path, now_ns, config, &outcome);
	bpf_spin_unlock(&bucket->lock);
	return count(counters, &outcome);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
