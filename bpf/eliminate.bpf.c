// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Of several copies of a packet, each by a path of its own, the first one passes and the others end here (XDP).
 *
 *   wifi ─┐
 *         ├─ mark of the identity ─ seen by another path, within the window? ─ yes: dropped
 *   lte ──┘                                                                  └ no: passed, and remembered
 *
 * The rule is that of IEC 62439-3 and Linux's PRP: never drop a legitimate packet; now and then to let a copy through is
 * tolerable. So a packet is dropped only against one that came by ANOTHER path, within the window, and that this path has
 * not brought yet. What one path brings twice is two packets.
 *
 * What the identity of a packet is: identity.h.
 *
 * Past the lease everything passes: the agent that was to renew it has gone.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "eliminate.h"
#include "identity.h"

struct bucket {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct entry entries[WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 16);	/* the agent may make it another power of two */
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

struct judged {
	enum verdict verdict;
	__u64 after_ns;		/* the first */
	__u32 evicted;		/* the path that had won a packet which was forgotten too early; PATHS_MAX: none */
};

static __always_inline void begin(struct entry *entry, const __u64 mark[2], __u32 path, __u64 now_ns)
{
	entry->mark[0] = mark[0];
	entry->mark[1] = mark[1];
	entry->first_ns = now_ns;
	entry->path = path;
	entry->seen = 1 << path;
}

/* Another processor may have looked at its clock later, and been here before. */
static __always_inline __u64 since(__u64 now_ns, __u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* The one of which it is least goes first: free ones, those that all have brought (it makes no difference), the oldest. */
static __always_inline __u64 worth(const struct entry *entry, __u32 everyone)
{
	return entry->seen == everyone || !entry->first_ns ? entry->first_ns : entry->first_ns | 1ULL << 63;
}

/* Under the bucket's lock. */
static __always_inline void judge(struct bucket *bucket, const __u64 mark[2], __u32 path, __u64 now_ns,
				  const struct settings *ours, struct judged *judged)
{
	__u64 least = ~0ULL, each;
	struct entry *entry, *oldest = &bucket->entries[0];

	for (int i = 0; i < WAYS; i++) {
		entry = &bucket->entries[i];
		if (entry->mark[0] != mark[0] || entry->mark[1] != mark[1] || !entry->first_ns)
			continue;
		judged->after_ns = since(now_ns, entry->first_ns);
		if (judged->after_ns > ours->window_ns) {
			judged->verdict = entry->seen & 1 << path ? FIRST : LATE;
			begin(entry, mark, path, now_ns);
		} else if (entry->seen & 1 << path) {
			judged->verdict = ROGUE;
			begin(entry, mark, path, now_ns);
		} else {
			judged->verdict = COPY;
			entry->seen |= 1 << path;
		}
		return;
	}
	for (int i = 0; i < WAYS; i++) {
		entry = &bucket->entries[i];
		each = worth(entry, ours->everyone);
		if (each < least) {
			least = each;
			oldest = entry;
		}
	}
	if (oldest->first_ns && since(now_ns, oldest->first_ns) <= ours->window_ns && oldest->seen != ours->everyone)
		judged->evicted = oldest->path;
	judged->verdict = FIRST;
	begin(oldest, mark, path, now_ns);
}

static __always_inline __u32 step_of(__u64 skew_ns)
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

static __always_inline int count(struct counters *counters, const struct judged *judged)
{
	struct counters *theirs;

	if (judged->evicted < PATHS_MAX) {
		theirs = counters_of(judged->evicted);
		if (theirs)
			theirs->evicted++;
	}
	if (judged->verdict == COPY || judged->verdict == LATE) /* or a window that is too short would never be known for it */
		counters->skew[step_of(judged->after_ns) & (SKEW_STEPS - 1)]++;
	switch (judged->verdict) {
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

static __always_inline __u32 path_of(const struct settings *ours, __u32 device)
{
	for (__u32 path = 0; path < PATHS_MAX; path++) {
		if (ours->devices[path] == device)
			return path;
	}
	return PATHS_MAX;
}

SEC("xdp")
int eliminate(struct xdp_md *ctx)
{
	struct judged judged = { .evicted = PATHS_MAX };
	__u64 now_ns = bpf_ktime_get_ns();
	struct settings *ours;
	struct counters *counters;
	struct bucket *bucket;
	__u32 only = 0, at, path;
	__u64 mark[2];
	struct sip s;

	ours = bpf_map_lookup_elem(&settings, &only);
	if (!ours || now_ns > ours->lease_until_ns)
		return XDP_PASS;
	path = path_of(ours, ctx->ingress_ifindex);
	if (path >= PATHS_MAX)
		return XDP_PASS;
	counters = counters_of(path);
	if (!counters)
		return XDP_PASS;
	sip_begin(&s, ours->secret);
	switch (identify(ctx, &ours->macs[path], &s)) {
	case IDENTIFIED:
		break;
	case UNIDENTIFIED:
		counters->unidentified++;
		return XDP_PASS;
	case NOT_FORWARDED:
		counters->not_forwarded++;
		return XDP_PASS;
	}
	sip_end(&s, mark);
	at = mark[0] & ours->buckets_mask;
	bucket = bpf_map_lookup_elem(&seen, &at);
	if (!bucket)
		return XDP_PASS;
	bpf_spin_lock(&bucket->lock);
	judge(bucket, mark, path, now_ns, ours, &judged);
	bpf_spin_unlock(&bucket->lock);
	return count(counters, &judged);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
