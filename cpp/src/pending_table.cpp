// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/pending_table.hpp"

#include <stdexcept>
#include <string>

namespace trcore {
namespace {

constexpr std::uint8_t kClaimed = 5;  // internal, never shown
constexpr std::uint64_t kListed = 1ULL << 8U;
constexpr std::uint32_t kGenerationMask = 0x7FFFFFFFU;

struct Word {
    std::uint32_t generation;
    bool listed;
    std::uint8_t state;

    static Word unpack(std::uint64_t w) noexcept {
        return {static_cast<std::uint32_t>(w >> 32U), (w & kListed) != 0,
                static_cast<std::uint8_t>(w & 0xFFU)};
    }
    [[nodiscard]] std::uint64_t pack() const noexcept {
        return (static_cast<std::uint64_t>(generation) << 32U) | (listed ? kListed : 0U) | state;
    }
    [[nodiscard]] bool is(State s) const noexcept { return state == static_cast<std::uint8_t>(s); }
    [[nodiscard]] bool live() const noexcept { return is(State::running) || is(State::pending); }
    // In use, as far as callers may know.
    [[nodiscard]] bool used() const noexcept { return live() || is(State::finished); }
};

std::uint32_t generation_of(Handle handle) noexcept {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(handle) >> 32U);
}
Handle make_handle(std::uint32_t generation, std::uint32_t index) noexcept {
    return static_cast<Handle>((static_cast<std::uint64_t>(generation) << 32U) | index);
}
// Serial-number order in 31 bits: is `a` before `b`?
bool older(std::uint32_t a, std::uint32_t b) noexcept {
    return ((a - b) & kGenerationMask) >= (1U << 30U);
}

void check_initial(State state) {
    if (state != State::running && state != State::pending) {
        throw std::invalid_argument("state: a request starts RUNNING or PENDING");
    }
}

}  // namespace

PendingTable::PendingTable(std::uint32_t slots, std::uint32_t peers) : slots_(slots), peers_(peers) {
    if (slots < 1 || slots > kMaxSlots) {
        throw std::invalid_argument("slots: must be 1 to " + std::to_string(kMaxSlots) + ", not " +
                                    std::to_string(slots));
    }
    if (peers < 1 || peers > kMaxPeers) {
        throw std::invalid_argument("peers: must be 1 to " + std::to_string(kMaxPeers) + ", not " +
                                    std::to_string(peers));
    }
    table_ = std::make_unique<Slot[]>(slots);
    // Zeroed, which is "generation 0, location 0": unset reads as 0 in every generation.
    anchors_ =
        std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(slots) * peers);
    for (std::uint32_t i = slots; i-- > 0;) {
        // relaxed: nobody else has the table yet.
        table_[i].word.store(Word{0, true, 0}.pack(), std::memory_order_relaxed);
        push_free(i);
    }
}

PendingTable::Slot* PendingTable::find(Handle handle) const noexcept {
    const std::int64_t index = slot_of(handle);
    return index < 0 || index >= slots_ ? nullptr : &table_[static_cast<std::size_t>(index)];
}

void PendingTable::push_free(std::uint32_t index) noexcept {
    std::uint64_t top = free_.load(std::memory_order_relaxed);  // checked by the CAS
    std::uint64_t wanted = 0;
    do {
        table_[index].next.store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);
        wanted = (((top >> 32U) + 1) << 32U) | (index + 1U);
        // release, pairs with the acquire loads in pop_free(): `next` before the new top.
    } while (!free_.compare_exchange_weak(top, wanted, std::memory_order_release,
                                          std::memory_order_relaxed));
}

std::int64_t PendingTable::pop_free() noexcept {
    // acquire, here and on failure, pairs with push_free().
    std::uint64_t top = free_.load(std::memory_order_acquire);
    for (;;) {
        const auto first = static_cast<std::uint32_t>(top);
        if (first == 0) return -1;
        // relaxed: may be stale if the slot was popped meanwhile; then the tag fails the CAS.
        const std::uint32_t next = table_[first - 1].next.load(std::memory_order_relaxed);
        const std::uint64_t wanted = (((top >> 32U) + 1) << 32U) | next;
        // release keeps `next` of the remaining slots visible to whoever acquires this top.
        if (free_.compare_exchange_weak(top, wanted, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
            return first - 1;
        }
    }
}

Handle PendingTable::allocate(State state, double deadline) {
    check_initial(state);
    for (;;) {
        const std::int64_t popped = pop_free();
        if (popped < 0) return kNone;
        const auto index = static_cast<std::uint32_t>(popped);
        Slot& slot = table_[index];
        std::uint64_t seen = slot.word.load(std::memory_order_relaxed);  // checked by the CAS
        for (;;) {
            Word word = Word::unpack(seen);
            const bool mine = word.is(State::free);
            word.listed = false;
            if (mine) word.state = kClaimed;
            // acquire, pairs with release(): the last use is over before this one starts.
            if (!slot.word.compare_exchange_weak(seen, word.pack(), std::memory_order_acquire,
                                                 std::memory_order_relaxed)) {
                continue;
            }
            if (!mine) break;  // adopted: now it isn't listed; its release() will list it
            // release, pairs with the load in expire(): whoever sees it sees the claim as well.
            slot.deadline.store(deadline, std::memory_order_release);
            word.state = static_cast<std::uint8_t>(state);
            // release, pairs with every acquire of the word. A store: CLAIMED is ours alone.
            slot.word.store(word.pack(), std::memory_order_release);
            return make_handle(word.generation, index);
        }
    }
}

bool PendingTable::adopt(Handle handle, State state, double deadline) {
    check_initial(state);
    Slot* slot = find(handle);
    if (slot == nullptr) return false;
    std::uint64_t seen = slot->word.load(std::memory_order_relaxed);  // checked by the CAS
    Word word{};
    do {
        word = Word::unpack(seen);
        if (!word.is(State::free) || older(generation_of(handle), word.generation)) return false;
        word.generation = generation_of(handle);
        word.state = kClaimed;
        // acquire, pairs with release().
    } while (!slot->word.compare_exchange_weak(seen, word.pack(), std::memory_order_acquire,
                                               std::memory_order_relaxed));
    slot->deadline.store(deadline, std::memory_order_release);  // as in allocate()
    // `listed` may be cleared by an allocate() that popped the slot just now: so a CAS, not a
    // store. release, pairs with every acquire of the word.
    seen = word.pack();
    do {
        word = Word::unpack(seen);
        word.state = static_cast<std::uint8_t>(state);
    } while (!slot->word.compare_exchange_weak(seen, word.pack(), std::memory_order_release,
                                               std::memory_order_relaxed));
    return true;
}

State PendingTable::state(Handle handle) const noexcept {
    const Slot* slot = find(handle);
    if (slot == nullptr) return State::stale;
    // acquire, pairs with the release of the transition that it shows.
    const Word word = Word::unpack(slot->word.load(std::memory_order_acquire));
    if (word.generation != generation_of(handle) || !word.used()) return State::stale;
    return static_cast<State>(word.state);
}

bool PendingTable::transition(Handle handle, State from, State to) {
    const bool legal = (from == State::running && to == State::pending) ||
                       (from == State::pending && to == State::running) ||
                       ((from == State::running || from == State::pending) && to == State::finished);
    if (!legal) {
        throw std::invalid_argument("old, new: legal are RUNNING to PENDING and back, and either "
                                    "to FINISHED; FINISHED is left by release()");
    }
    Slot* slot = find(handle);
    if (slot == nullptr) return false;
    std::uint64_t seen = slot->word.load(std::memory_order_relaxed);  // checked by the CAS
    for (;;) {
        Word word = Word::unpack(seen);
        if (word.generation != generation_of(handle) || !word.is(from)) return false;
        word.state = static_cast<std::uint8_t>(to);
        // acq_rel: the winner sees what the state's last setter did, the next one what we did.
        // Retried if only `listed` changed.
        if (slot->word.compare_exchange_weak(seen, word.pack(), std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
            return true;
        }
    }
}

bool PendingTable::release(Handle handle) noexcept {
    Slot* slot = find(handle);
    if (slot == nullptr) return false;
    std::uint64_t seen = slot->word.load(std::memory_order_relaxed);  // checked by the CAS
    for (;;) {
        Word word = Word::unpack(seen);
        if (word.generation != generation_of(handle) || !word.is(State::finished)) return false;
        const bool listed = word.listed;
        const Word freed{(word.generation + 1) & kGenerationMask, true, 0};
        // acq_rel: release pairs with the claims in allocate() and adopt().
        if (slot->word.compare_exchange_weak(seen, freed.pack(), std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
            if (!listed) push_free(static_cast<std::uint32_t>(slot_of(handle)));
            return true;
        }
    }
}

void PendingTable::check_peer(std::uint32_t peer) const {
    if (peer >= peers_) {
        throw std::out_of_range("peer: must be below " + std::to_string(peers_) + ", not " +
                                std::to_string(peer));
    }
}

bool PendingTable::set_anchor(Handle handle, std::uint32_t peer, std::uint32_t location) {
    check_peer(peer);
    if (state(handle) == State::stale) return false;
    auto& anchor = anchors_[static_cast<std::size_t>(slot_of(handle)) * peers_ + peer];
    const std::uint64_t wanted =
        (static_cast<std::uint64_t>(generation_of(handle)) << 32U) | location;
    std::uint64_t seen = anchor.load(std::memory_order_relaxed);  // checked by the CAS
    do {
        // A later use has set it: we are late.
        if (older(generation_of(handle), static_cast<std::uint32_t>(seen >> 32U))) return false;
        // release, pairs with the acquire load in anchor().
    } while (!anchor.compare_exchange_weak(seen, wanted, std::memory_order_release,
                                           std::memory_order_relaxed));
    return state(handle) != State::stale;  // released meanwhile: what we wrote reads as unset
}

std::int64_t PendingTable::anchor(Handle handle, std::uint32_t peer) const {
    check_peer(peer);
    if (state(handle) == State::stale) return -1;
    // acquire, pairs with set_anchor().
    const std::uint64_t word =
        anchors_[static_cast<std::size_t>(slot_of(handle)) * peers_ + peer].load(
            std::memory_order_acquire);
    const bool set = static_cast<std::uint32_t>(word >> 32U) == generation_of(handle);
    return set ? static_cast<std::int64_t>(word & 0xFFFFFFFFU) : 0;
}

std::size_t PendingTable::expire(double now, std::span<Handle> out) const noexcept {
    std::size_t found = 0;
    for (std::uint32_t i = 0; i < slots_ && found < out.size(); ++i) {
        const Slot& slot = table_[i];
        // acquire, pairs with the end of a claim: the deadline is this generation's or later.
        const Word before = Word::unpack(slot.word.load(std::memory_order_acquire));
        if (!before.live()) continue;
        // acquire, pairs with the store in a claim: if it is a later one's, the next load sees it.
        const double deadline = slot.deadline.load(std::memory_order_acquire);
        if (!(deadline <= now)) continue;
        const Word after = Word::unpack(slot.word.load(std::memory_order_relaxed));
        if (after.generation == before.generation && after.live()) {
            out[found++] = make_handle(before.generation, i);
        }
    }
    return found;
}

PendingTable::Counts PendingTable::counts() const noexcept {
    Counts counts;
    for (std::uint32_t i = 0; i < slots_; ++i) {
        // relaxed: each is a moment's truth anyhow.
        const Word word = Word::unpack(table_[i].word.load(std::memory_order_relaxed));
        if (word.is(State::free)) ++counts.free;
        else if (word.is(State::running)) ++counts.running;
        else if (word.is(State::pending)) ++counts.pending;
        else if (word.is(State::finished)) ++counts.finished;
    }
    return counts;
}

}  // namespace trcore
