// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// PeerRing: many producers, one consumer, variable-length records, bounded, first in first out.
//
// POSITIONS count cells for ever; position p is cell p mod n in lap p / n. A record takes k
// consecutive positions and may wrap around the end of the memory. Invariant: head <= tail <=
// head + n, and both are always the start of a record.
//
// THE WORDS OF A RECORD AT p, and who may write them (lap = lap of p):
//   EMPTY(lap)     any producer, by CAS, while p == tail          -> RESERVED(lap, k, slot)
//   RESERVED       its owner, by a store                          -> READY
//                  once the owner is dead: anybody, by CAS        -> PADDING
//   READY, PADDING the consumer, by a store                       -> EMPTY(lap + 1)
// The words of its other k - 1 cells stay EMPTY(lap) until the consumer makes them EMPTY(lap+1).
//
// RESERVE. The CAS takes the space and names the owner in one step; only then is tail moved, by
// whoever comes first: the winner, or a producer or the consumer that finds a taken word at tail
// (as in Michael and Scott's queue). So a producer killed at any instruction leaves nothing, or a
// word that names it. The CAS can't succeed at a wrong place: a stale tail points to a word
// whose lap has changed, or that is taken. (The lap has 32 bits: a producer would have to sleep
// between two instructions for exactly 2^32 laps.) An interior word is never at tail.
// Room is checked before the CAS, against a head that only grows: what was free stays free.
//
// FREE. The consumer moves tail past a record before it empties the words. Otherwise, with the
// owner killed before it moved tail, tail would point to an EMPTY(lap + 1) word for ever, and no
// producer could reserve or help. It empties *all* k words, as any may start the next record.
//
// PAYLOAD bytes are plain memory. Written between reserve and publish by the owner alone; read
// between acquiring READY and releasing head by the consumer alone. The two edges:
//   publish [P] release  ->  consumer's load [C] acquire     (contents before reading them)
//   head    [F] release  ->  producer's load [R] acquire     (read before overwriting them)
//
// PROGRESS. Reserving is lock-free; nobody waits for a producer but the consumer, which waits at
// a reservation as long as its owner lives (order is FIFO), however slow it is. A process that
// calls exec() in the middle of a push keeps its pid and start time, and is waited for.
//
// `Policy` gives the tests hooks inside push and lets them weaken the publishing store.
#pragma once

#include <cstring>
#include <span>

#include "trcore/producer_slots.hpp"
#include "trcore/ring_waiter.hpp"

namespace trcore {

struct DefaultRingPolicy {
    static constexpr std::memory_order kPublishOrder = std::memory_order_release;
    static void after_reserve() noexcept {}   // named in the word, tail not moved yet
    static void before_publish() noexcept {}  // contents written, not visible yet
};

// A record as it lies in the ring: in two pieces if it wraps, else the second is empty.
struct RecordView {
    std::span<const std::byte> first;
    std::span<const std::byte> second;
    [[nodiscard]] std::size_t size() const noexcept { return first.size() + second.size(); }
    void copy_to(void* out) const noexcept {
        if (!first.empty()) std::memcpy(out, first.data(), first.size());
        if (!second.empty()) {
            std::memcpy(static_cast<std::byte*>(out) + first.size(), second.data(), second.size());
        }
    }
};

// One process's view of a ring. Not the owner of its memory. Any thread may push; one thread at
// a time may drain.
template <class Policy = DefaultRingPolicy>
class BasicPeerRing : public RingWaiter {
public:
    explicit BasicPeerRing(RingParts ring) noexcept
        : RingWaiter(ring), mask_(ring.control->cells - 1) {}

    // Needed once before the first push.
    void join_as_producer(ProcessId self) { slot_ = claim_producer_slot(ring_, self); }
    void leave_as_producer() noexcept { release_producer_slot(ring_, slot_); }

    // Adds one record; false if there is no room now. Wakes nobody. Throws
    // std::invalid_argument if the record could never fit.
    [[nodiscard]] bool push_quietly(std::span<const std::byte> record) {
        const std::uint32_t cells = cells_of(record.size());
        std::uint64_t at = 0;
        if (!reserve(cells, at)) return false;
        const auto bytes = static_cast<std::uint32_t>(record.size());
        std::byte* start = ring_.cells + (at & mask_) * kCellBytes;
        std::memcpy(start, &bytes, kLengthBytes);
        const std::size_t straight = bytes_before_end(at);
        const std::size_t first = record.size() < straight ? record.size() : straight;
        if (first != 0) std::memcpy(start + kLengthBytes, record.data(), first);
        if (first < record.size()) {
            std::memcpy(ring_.cells, record.data() + first, record.size() - first);
        }
        Policy::before_publish();
        // [P] release, pairs with the acquire load [C] in word_at().
        ring_.words[at & mask_].store(CellWord{lap_of(at), cells, slot_, CellState::ready}.pack(),
                                      Policy::kPublishOrder);
        return true;
    }

    [[nodiscard]] bool push(std::span<const std::byte> record) {
        if (!push_quietly(record)) return false;
        ring_.control->data.notify();
        return true;
    }

    // After one or more push_quietly().
    void notify_consumer() noexcept { ring_.control->data.notify(); }

    // Gives up to `most` records (0: all) in order to sink(RecordView), whose memory is reused
    // when it returns; at most one ring's worth. A record whose sink throws stays. Returns the
    // number given.
    template <class Sink>
    std::size_t drain(std::size_t most, Sink&& sink) {
        // relaxed: only the consumer writes head.
        const std::uint64_t start = ring_.control->head.load(std::memory_order_relaxed);
        std::uint64_t at = start;
        std::size_t given = 0;
        struct Notice {  // also when the sink throws
            RingControl* control;
            std::uint64_t start;
            const std::uint64_t& at;
            ~Notice() { if (at != start) control->room.notify(); }
        } notice{ring_.control, start, at};
        while (at - start <= mask_ && (most == 0 || given < most)) {
            CellWord word = word_at(at);
            if (word.lap != lap_of(at) || word.state == CellState::empty) break;
            if (word.state == CellState::reserved) {
                if (!owner_is_gone(at, word)) break;
                continue;  // now PADDING, or just published after all
            }
            if (word.state == CellState::ready) {
                sink(record_at(at, word.cells));
                ++given;
            }
            free_cells(at, word.cells);
            at += word.cells;
        }
        return given;
    }

private:
    // Takes `cells` cells; false if there is no room.
    bool reserve(std::uint32_t cells, std::uint64_t& at) noexcept {
        for (;;) {
            // acquire, pairs with move_tail().
            const std::uint64_t tail = ring_.control->tail.load(std::memory_order_acquire);
            const Room room = room_at(tail, cells);
            if (room == Room::stale) continue;
            if (room == Room::none) return false;
            std::uint64_t seen = CellWord::free_in(lap_of(tail));
            const std::uint64_t wanted =
                CellWord{lap_of(tail), cells, slot_, CellState::reserved}.pack();
            // acq_rel. Acquire pairs with free_cells(); release gives the consumer and the sweeper
            // the claim of our slot. On failure acquire, as we may help with what we saw.
            if (ring_.words[tail & mask_].compare_exchange_strong(
                    seen, wanted, std::memory_order_acq_rel, std::memory_order_acquire)) {
                Policy::after_reserve();
                move_tail(tail, cells);
                at = tail;
                return true;
            }
            const CellWord word = CellWord::unpack(seen);
            if (word.lap == lap_of(tail) && word.state != CellState::empty) {
                move_tail(tail, word.cells);  // help the winner, who may be asleep or dead
            }  // else tail moved on since we read it
        }
    }

    // From `at`, a record's start, to its end; no effect if somebody did it already.
    void move_tail(std::uint64_t at, std::uint32_t cells) noexcept {
        // release, pairs with the acquire load in reserve(). relaxed on failure: tail only
        // grows and each step starts at a record, so whoever moved it did the same.
        ring_.control->tail.compare_exchange_strong(at, at + cells, std::memory_order_release,
                                                    std::memory_order_relaxed);
    }

    void free_cells(std::uint64_t at, std::uint32_t cells) noexcept {
        // relaxed load: only a hint whether to help. See FREE above.
        if (ring_.control->tail.load(std::memory_order_relaxed) == at) move_tail(at, cells);
        for (std::uint32_t i = 0; i < cells; ++i) {
            // release, pairs with the CAS in reserve().
            ring_.words[(at + i) & mask_].store(CellWord::free_in(lap_of(at + i) + 1),
                                                std::memory_order_release);
        }
        // [F] release, pairs with the acquire load [R] in room_at().
        ring_.control->head.store(at + cells, std::memory_order_release);
    }

    // Record bytes that fit behind the length at `at` before the memory ends.
    [[nodiscard]] std::size_t bytes_before_end(std::uint64_t at) const noexcept {
        return static_cast<std::size_t>(mask_ + 1 - (at & mask_)) * kCellBytes - kLengthBytes;
    }

    [[nodiscard]] RecordView record_at(std::uint64_t at, std::uint32_t cells) const {
        const std::byte* start = ring_.cells + (at & mask_) * kCellBytes;
        std::uint32_t bytes = 0;
        std::memcpy(&bytes, start, kLengthBytes);
        if (bytes > static_cast<std::size_t>(cells) * kCellBytes - kLengthBytes) {
            throw std::runtime_error("PeerRing: a record is longer than its cells: memory of the "
                                     "ring was overwritten");
        }
        const std::size_t straight = bytes_before_end(at);
        const std::size_t first = bytes < straight ? bytes : straight;
        return {{start + kLengthBytes, first}, {ring_.cells, bytes - first}};
    }

    std::uint64_t mask_;
    std::uint32_t slot_ = 0;
};

using PeerRing = BasicPeerRing<>;

}  // namespace trcore
