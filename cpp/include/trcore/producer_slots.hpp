// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// The table that says which process each reservation in a ring belongs to.
//
// A slot holds the ProcessId of its owner, or zero. Owner D may die with reservations in the
// ring that name D's slot, so the slot can't simply be taken over: they would look like the
// newcomer's, and the consumer would wait for them for ever. Hence: claim, sweep, use.
//
//   claim  CAS the slot from D to the newcomer N. One newcomer wins.
//   sweep  turn every RESERVED word that names the slot into PADDING. D is dead and N hasn't
//          reserved yet, so every such word is D's. Sweeping *before* the claim would be wrong:
//          a second newcomer could claim and reserve meanwhile, and be swept.
//   use    only now N reserves.
//
// N killed while sweeping leaves a dead owner in the slot: the next claim sweeps again. The
// consumer may abandon a word of D at the same time: both use CAS on the exact word, one wins.
#pragma once

#include <stdexcept>

#include "trcore/ring_layout.hpp"

namespace trcore {

// RESERVED → PADDING, if the word still is what the caller saw. Counts it. Only for dead owners.
inline bool abandon(RingParts ring, std::uint64_t cell, CellWord seen) noexcept {
    std::uint64_t expected = seen.pack();
    seen.state = CellState::padding;
    // acq_rel: pairs with the acquire load of the consumer; relaxed on failure, nothing is read.
    if (!ring.words[cell].compare_exchange_strong(expected, seen.pack(), std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
        return false;
    }
    ring.control->abandoned.fetch_add(1, std::memory_order_relaxed);  // a statistic
    return true;
}

// Takes a producer slot for the calling process. Throws std::runtime_error when all
// kProducerSlots belong to living processes.
[[nodiscard]] inline std::uint32_t claim_producer_slot(RingParts ring, ProcessId self) {
    for (std::uint32_t slot = 0; slot < kProducerSlots; ++slot) {
        auto& owner = ring.control->producers[slot];
        // acquire, pairs with the claim below and with release_producer_slot().
        ProcessId before = owner.load(std::memory_order_acquire);
        if (before != 0 && is_alive(before)) continue;
        // acq_rel: the acquire side pairs with release_producer_slot(); the release side is
        // carried to the consumer by the reserving CAS, so that whoever sees a reservation of
        // ours also sees that the slot is ours.
        if (!owner.compare_exchange_strong(before, self, std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
            continue;  // another newcomer was quicker
        }
        bool swept = false;
        for (std::uint64_t cell = 0; before != 0 && cell < ring.control->cells; ++cell) {
            // acquire, pairs with the reserving CAS.
            const auto word = CellWord::unpack(ring.words[cell].load(std::memory_order_acquire));
            if (word.state == CellState::reserved && word.slot == slot) {
                swept = abandon(ring, cell, word) || swept;
            }
        }
        if (swept) ring.control->data.notify();  // the consumer may sleep in front of it
        return slot;
    }
    throw std::runtime_error("PeerRing: all " + std::to_string(kProducerSlots) +
                             " producer slots belong to living processes");
}

// Gives the slot back. The caller has no reservation left.
inline void release_producer_slot(RingParts ring, std::uint32_t slot) noexcept {
    // release, pairs with the claim.
    ring.control->producers[slot].store(0, std::memory_order_release);
}

}  // namespace trcore
