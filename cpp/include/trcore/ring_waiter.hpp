// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// RingWaiter: the part of a PeerRing that looks without taking. Waiting for a record, waiting
// for room, and finding out that the owner of a reservation is dead.
#pragma once

#include <thread>

#include "trcore/producer_slots.hpp"

namespace trcore {

class RingWaiter {
public:
    using Clock = Wakeup::Clock;
    using Nanoseconds = std::chrono::nanoseconds;

    // No sleep is longer: see the end of wakeup.hpp on killed notifiers.
    static constexpr Nanoseconds kLongestSleep = std::chrono::milliseconds(100);

    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept {
        return ring_.control->cells * kCellBytes;
    }
    [[nodiscard]] std::uint64_t max_record_bytes() const noexcept {
        return capacity_bytes() - kLengthBytes;
    }
    // Reservations given up because their owner died.
    [[nodiscard]] std::uint64_t abandoned() const noexcept {
        return ring_.control->abandoned.load(std::memory_order_relaxed);  // a statistic
    }

    // Cells for a record. Throws std::invalid_argument if the ring could never hold it.
    [[nodiscard]] std::uint32_t cells_of(std::size_t record_bytes) const {
        if (record_bytes > max_record_bytes()) {
            throw std::invalid_argument(
                "record: " + std::to_string(record_bytes) + " bytes, and this ring's longest is " +
                std::to_string(max_record_bytes()) + " (PeerRing.max_record_bytes)");
        }
        return static_cast<std::uint32_t>((record_bytes + kLengthBytes + kCellBytes - 1) /
                                          kCellBytes);
    }

    // True when drain() has something to do or wake() was called (which ends one wait); false
    // after `timeout` or stop(). What drain() has to do is a record, or once per reservation of a
    // dead producer, to skip it. Spins a little first, see spin(). Any thread.
    [[nodiscard]] bool wait(Nanoseconds timeout) noexcept {
        return wait_until(ring_.control->data, timeout, spin_ns_, [this] { return look(); });
    }

    // True when a record of this size would find room. Somebody else may take it first.
    [[nodiscard]] bool wait_for_room(std::size_t record_bytes, Nanoseconds timeout) {
        const std::uint32_t cells = cells_of(record_bytes);
        return wait_until(ring_.control->room, timeout, room_spin_ns_, [this, cells] {
            // acquire, pairs with move_tail().
            const auto tail = ring_.control->tail.load(std::memory_order_acquire);
            return room_at(tail, cells) == Room::none ? Sight::nothing : Sight::yes;
        });
    }

    // Is there something for wait() now? Costs no system call; takes a wake request.
    [[nodiscard]] bool ready() noexcept { return look() == Sight::yes; }

    // Longest spin before a sleep; 0 for none. Before the first wait.
    void set_spin(Nanoseconds longest) noexcept {
        most_spin_ = static_cast<std::uint32_t>(longest.count());
        spin_ns_.store(most_spin_, std::memory_order_relaxed);
        room_spin_ns_.store(most_spin_, std::memory_order_relaxed);
    }

    // Ends one wait(), now or the next. Any thread, any process.
    void wake() noexcept {
        // release, pairs with the exchange in look().
        ring_.control->wake_requests.store(1, std::memory_order_release);
        ring_.control->data.notify();
    }

    // Ends all waits of this view for good.
    void stop() noexcept {
        stopped_.store(true, std::memory_order_release);  // pairs with the load in wait_until()
        ring_.control->data.notify();
        ring_.control->room.notify();
    }

protected:
    enum class Room { yes, none, stale };
    enum class Sight { nothing, yes, stalled };

    explicit RingWaiter(RingParts ring) noexcept
        : ring_(ring), shift_(static_cast<unsigned>(std::countr_zero(ring.control->cells))) {}

    [[nodiscard]] std::uint32_t lap_of(std::uint64_t position) const noexcept {
        return static_cast<std::uint32_t>(position >> shift_);
    }
    [[nodiscard]] CellWord word_at(std::uint64_t position) const noexcept {
        // [C] acquire, pairs with the publishing store [P] in push_quietly().
        return CellWord::unpack(ring_.words[position & (ring_.control->cells - 1)].load(
            std::memory_order_acquire));
    }

    // `stale`: head has passed this tail since it was read. A `none` is true of the moment when
    // head is read: the real tail is at least `tail`.
    [[nodiscard]] Room room_at(std::uint64_t tail, std::uint32_t cells) const noexcept {
        // [R] acquire, pairs with the store of head [F] in free_cells().
        const std::uint64_t head = ring_.control->head.load(std::memory_order_acquire);
        if (head > tail) return Room::stale;
        return tail + cells - head <= ring_.control->cells ? Room::yes : Room::none;
    }

    // Is the owner of the reservation at `at` dead? Then it becomes PADDING. Reading /proc takes
    // some 20 µs, so it first gives the owner 1 ms and then asks ever more rarely.
    bool owner_is_gone(std::uint64_t at, CellWord word) noexcept {
        // All relaxed: private to this view, and wait() and drain() may race here harmlessly
        // (one check more or fewer); the decision itself is a CAS.
        const auto now = Clock::now().time_since_epoch().count();
        if (stalled_at_.load(std::memory_order_relaxed) != at) {
            stalled_at_.store(at, std::memory_order_relaxed);
            patience_.store(kFirstPatience, std::memory_order_relaxed);
            next_check_.store(now + kFirstPatience, std::memory_order_relaxed);
            return false;
        }
        if (now < next_check_.load(std::memory_order_relaxed)) return false;
        // acquire, pairs with the claim: word_at() saw the reservation, so this sees its claim.
        const ProcessId owner = ring_.control->producers[word.slot].load(std::memory_order_acquire);
        if (owner != 0 && is_alive(owner)) {
            const auto patience =
                std::min(2 * patience_.load(std::memory_order_relaxed), kLastPatience);
            patience_.store(patience, std::memory_order_relaxed);
            next_check_.store(now + patience, std::memory_order_relaxed);
            return false;
        }
        abandon(ring_, at & (ring_.control->cells - 1), word);
        return true;
    }

    RingParts ring_;

private:
    using Ticks = Clock::duration::rep;
    static constexpr Ticks kFirstPatience =
        std::chrono::duration_cast<Clock::duration>(std::chrono::milliseconds(1)).count();
    static constexpr Ticks kLastPatience = 64 * kFirstPatience;
    static constexpr std::uint32_t kLeastSpin = 1'000;  // ns; less isn't worth it
    static constexpr std::uint32_t kMostSpin = 10'000;

    // Is there something for wait()? Takes a wake request, but no record.
    [[nodiscard]] Sight look() noexcept {
        auto& wakes = ring_.control->wake_requests;
        // acquire, pairs with the store in wake(); the plain load first keeps the line shared.
        if (wakes.load(std::memory_order_relaxed) != 0 &&
            wakes.exchange(0, std::memory_order_acquire) != 0) {
            return Sight::yes;
        }
        for (;;) {
            // acquire, pairs with [F]: this may be another thread than the one that drains.
            const std::uint64_t at = ring_.control->head.load(std::memory_order_acquire);
            const CellWord word = word_at(at);
            if (word.lap != lap_of(at)) continue;  // drained meanwhile
            // PADDING counts: it must be drained before the producers find room.
            if (word.state == CellState::ready || word.state == CellState::padding) {
                return Sight::yes;
            }
            if (word.state == CellState::empty) return Sight::nothing;
            if (!owner_is_gone(at, word)) return Sight::stalled;
        }
    }

    template <class Look>
    bool wait_until(Wakeup& wakeup, Nanoseconds timeout, std::atomic<std::uint32_t>& budget,
                    Look&& look_now) noexcept {
        if (look_now() == Sight::yes) return true;
        if (timeout <= Nanoseconds::zero()) return false;
        auto now = Clock::now();
        // Beyond a century is for ever (and would overflow the clock).
        const auto end = now + std::min<Nanoseconds>(timeout, std::chrono::hours(24 * 36500));
        if (spin(now, end, budget, look_now)) return true;
        for (;;) {
            const std::uint32_t key = wakeup.prepare();
            const Sight sight = look_now();
            if (sight == Sight::yes) return true;
            // acquire, pairs with stop().
            if (now >= end || stopped_.load(std::memory_order_acquire)) return false;
            auto nap = std::min<Nanoseconds>(end - now, kLongestSleep);
            if (sight == Sight::stalled) {
                const Ticks due = next_check_.load(std::memory_order_relaxed);
                nap = std::min<Nanoseconds>(
                    nap, Clock::duration(due - now.time_since_epoch().count()));
            }
            wakeup.sleep(key, nap);
            if (look_now() == Sight::yes) return true;  // before the clock, which may be slow
            now = Clock::now();
        }
    }

    // Looks for a while before sleeping: a sleep and its wake-up cost 4–50 µs, a peer that is
    // running on another core answers in 1–5. If it isn't running (more threads than cores) a
    // spin only keeps it from the core. So the budget halves, down to nothing, when spinning was
    // in vain, is whole again when it helped, and every 64th wait tries a whole one.
    template <class Look>
    bool spin(Clock::time_point start, Clock::time_point end, std::atomic<std::uint32_t>& budget,
              Look&& look_now) noexcept {
        static const bool one_core = std::thread::hardware_concurrency() == 1;
        if (one_core || most_spin_ == 0) return false;
        // All relaxed: a heuristic.
        const std::uint32_t usual = budget.load(std::memory_order_relaxed);
        const bool probe = waits_.fetch_add(1, std::memory_order_relaxed) % 64 == 63;
        const std::uint32_t ns = probe ? most_spin_ : usual;
        if (ns < kLeastSpin) return false;
        const auto until = std::min(end, start + Nanoseconds(ns));
        do {
            for (int i = 0; i < 16; ++i) {
                cpu_relax();
                if (look_now() == Sight::yes) {
                    budget.store(most_spin_, std::memory_order_relaxed);
                    return true;
                }
            }
        } while (Clock::now() < until);
        budget.store(usual / 2, std::memory_order_relaxed);
        return false;
    }

    unsigned shift_;
    std::uint32_t most_spin_ = kMostSpin;
    std::atomic<std::uint32_t> waits_{0};
    std::atomic<bool> stopped_{false};
    std::atomic<std::uint32_t> spin_ns_{kMostSpin};
    std::atomic<std::uint32_t> room_spin_ns_{kMostSpin};
    // The reservation that keeps the consumer waiting, and when to ask about its owner again.
    std::atomic<std::uint64_t> stalled_at_{~0ULL};
    std::atomic<Ticks> patience_{kFirstPatience};
    std::atomic<Ticks> next_check_{0};
};

}  // namespace trcore
