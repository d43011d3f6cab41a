// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// PendingTable: which requests are alive here, and in what state. Any thread may call anything.
//
// A HANDLE names one use of one slot: generation (31 bits) | slot (32 bits), so it is never
// negative. Release raises the slot's generation; from then on the handle is stale, and every
// call with it changes nothing and says so. (After 2^31 uses of a slot a handle would mean
// something again.)
//
// A SLOT is one word, changed by CAS only (but for the last step of a claim):
//   generation (31) << 32 | listed (1) << 8 | state (8)
//     FREE ── allocate, adopt ──> CLAIMED ──> RUNNING | PENDING     CLAIMED is internal: one
//     RUNNING <──> PENDING                                          thread fills the slot in
//     RUNNING, PENDING ──> FINISHED ── release ──> FREE, generation + 1
//
// THE FREE LIST is a Treiber stack with a tag against ABA. `listed` is set while the slot is on
// it. adopt() takes a free slot without unlinking it (the stack can't); allocate() drops slots
// that it pops and finds taken, and release() pushes only what isn't listed. Both facts change
// in the slot's own word, so a slot is never listed twice and never lost.
//
// DEADLINES AND ANCHORS belong to a generation. A deadline is written while the slot is CLAIMED
// and read between two looks at the slot's word. An anchor carries its generation: a late
// writer's value bears the wrong one and reads as "not set".
#pragma once

#include <limits>
#include <memory>
#include <span>

#include "trcore/config.hpp"

namespace trcore {

enum class State : std::uint8_t { free = 0, running = 1, pending = 2, finished = 3, stale = 4 };

using Handle = std::int64_t;

class PendingTable {
public:
    static constexpr Handle kNone = -1;
    static constexpr std::uint32_t kMaxSlots = 1U << 24U;
    static constexpr std::uint32_t kMaxPeers = 1U << 10U;

    struct Counts { std::uint32_t free = 0, running = 0, pending = 0, finished = 0; };

    // Throws std::invalid_argument unless 1 <= slots <= kMaxSlots and 1 <= peers <= kMaxPeers.
    // Takes 24 + 8 * peers bytes a slot.
    PendingTable(std::uint32_t slots, std::uint32_t peers);

    // A new request; kNone when no slot is free. `state` is running or pending (else
    // std::invalid_argument), `deadline` in seconds of the caller's clock.
    Handle allocate(State state, double deadline);

    // Takes over a handle that another table allocated. False if its slot is in use here or the
    // handle is older than the slot's last use (so a late duplicate can't revive a request), or
    // lies outside this table.
    bool adopt(Handle handle, State state, double deadline);

    [[nodiscard]] State state(Handle handle) const noexcept;

    // True if this call made the transition, false if the state is another or the handle stale.
    // Throws std::invalid_argument for one that is never legal.
    bool transition(Handle handle, State from, State to);

    // Token count (location) up to which `peer` knows the sequence. Zero until set. False, or -1,
    // for stale handles. Throws std::out_of_range for a peer that isn't there.
    bool set_anchor(Handle handle, std::uint32_t peer, std::uint32_t location);
    [[nodiscard]] std::int64_t anchor(Handle handle, std::uint32_t peer) const;

    // Handles of running and pending requests with deadline <= now, in slot order, as many as
    // `out` holds; returns how many. They stay as they are: the caller decides. O(slots).
    std::size_t expire(double now, std::span<Handle> out) const noexcept;

    // Frees the slot of a finished request.
    bool release(Handle handle) noexcept;

    // O(slots). Exact when nobody changes the table meanwhile.
    [[nodiscard]] Counts counts() const noexcept;

    [[nodiscard]] static constexpr std::int64_t slot_of(Handle handle) noexcept {
        return handle < 0 ? -1 : handle & 0xFFFFFFFF;
    }
    [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
    [[nodiscard]] std::uint32_t peers() const noexcept { return peers_; }

private:
    struct Slot {
        std::atomic<std::uint64_t> word;
        std::atomic<double> deadline;
        std::atomic<std::uint32_t> next;  // on the free list: index + 1 of the next, 0 at the end
    };
    static_assert(std::atomic<double>::is_always_lock_free);

    // The slot of a handle, or null if it lies outside.
    [[nodiscard]] Slot* find(Handle handle) const noexcept;
    void push_free(std::uint32_t index) noexcept;
    [[nodiscard]] std::int64_t pop_free() noexcept;
    void check_peer(std::uint32_t peer) const;

    std::uint32_t slots_;
    std::uint32_t peers_;
    std::unique_ptr<Slot[]> table_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> anchors_;  // generation << 32 | location
    alignas(kCacheLine) std::atomic<std::uint64_t> free_{0};  // tag << 32 | index + 1
};

}  // namespace trcore
