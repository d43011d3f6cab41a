// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/pending_table.hpp"

#include <set>
#include <thread>

#include "check.hpp"

using trcore::Handle;
using trcore::PendingTable;
using trcore::State;

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(a_request_lives_and_its_handle_goes_stale) {
    PendingTable table(2, 3);
    const Handle a = table.allocate(State::running, kNever);
    CHECK(a >= 0 && table.state(a) == State::running && PendingTable::slot_of(a) == 0);
    CHECK(table.set_anchor(a, 2, 17) && table.anchor(a, 2) == 17 && table.anchor(a, 0) == 0);
    CHECK(table.transition(a, State::running, State::pending));
    CHECK(!table.transition(a, State::running, State::finished));
    CHECK(!table.release(a));
    CHECK(table.transition(a, State::pending, State::finished) && table.release(a));
    CHECK(table.state(a) == State::stale && table.anchor(a, 2) == -1 && !table.release(a));
    CHECK(!table.set_anchor(a, 2, 5) && !table.transition(a, State::running, State::pending));
    const Handle b = table.allocate(State::pending, 5.0);
    CHECK(b != a && PendingTable::slot_of(b) == 0 && table.anchor(b, 2) == 0);
    CHECK(table.allocate(State::running, kNever) >= 0);
    CHECK(table.allocate(State::running, kNever) == PendingTable::kNone);
    CHECK_THROWS(std::invalid_argument, "old", table.transition(b, State::finished, State::running));
    CHECK_THROWS(std::out_of_range, "peer", table.anchor(b, 3));
    CHECK(table.state(-1) == State::stale && table.state(Handle{1} << 40) == State::stale);
}

TEST(expire_finds_live_requests_in_time) {
    PendingTable table(4, 1);
    const Handle a = table.allocate(State::running, 1.0);
    const Handle b = table.allocate(State::pending, 2.0);
    const Handle c = table.allocate(State::running, 0.5);
    CHECK(table.transition(c, State::running, State::finished));
    Handle out[4] = {};
    CHECK(table.expire(0.9, out) == 0);
    CHECK(table.expire(2.0, out) == 2 && out[0] == a && out[1] == b);
    CHECK(table.expire(2.0, std::span(out, 1)) == 1);
}

TEST(adoption_and_allocation_share_the_slots) {
    PendingTable group(3, 1), mine(3, 1);
    const Handle first = group.allocate(State::running, kNever);
    CHECK(mine.adopt(first, State::pending, kNever) && mine.state(first) == State::pending);
    CHECK(!mine.adopt(first, State::pending, kNever));
    std::set<std::int64_t> slots;
    for (int i = 0; i < 2; ++i) slots.insert(PendingTable::slot_of(mine.allocate(State::running, kNever)));
    CHECK(slots == (std::set<std::int64_t>{1, 2}));
    CHECK(mine.allocate(State::running, kNever) == PendingTable::kNone);
    CHECK(mine.transition(first, State::pending, State::finished) && mine.release(first));
    CHECK(!mine.adopt(first, State::running, kNever));  // a late duplicate revives nothing
    const Handle again = mine.allocate(State::running, kNever);
    CHECK(PendingTable::slot_of(again) == 0 && again != first);
}

// Resume (pending to running) against abort (pending to finished): exactly one wins.
TEST(of_two_racing_transitions_one_wins) {
    PendingTable table(1, 1);
    constexpr int kRounds = 4000;
    std::atomic<int> round{0}, done{0}, resumed{0}, aborted{0};
    std::atomic<Handle> handle{0};
    const auto racer = [&](State to, std::atomic<int>& wins) {
        for (int i = 1; i <= kRounds; ++i) {
            while (round.load(std::memory_order_acquire) < i) std::this_thread::yield();
            if (table.transition(handle.load(), State::pending, to)) wins.fetch_add(1);
            done.fetch_add(1);
        }
    };
    std::thread resume([&] { racer(State::running, resumed); });
    std::thread abort([&] { racer(State::finished, aborted); });
    for (int i = 1; i <= kRounds; ++i) {
        handle = table.allocate(State::pending, kNever);
        CHECK(handle.load() >= 0);
        round.store(i, std::memory_order_release);
        while (done.load() < 2 * i) std::this_thread::yield();
        CHECK(resumed.load() + aborted.load() == i);
        table.transition(handle, State::running, State::finished);
        CHECK(table.release(handle));
    }
    resume.join();
    abort.join();
}

// Threads allocate, adopt and release on few slots; each use of a slot has one owner, and the
// anchor it wrote stays its own while stale handles are fired at the table.
TEST(slots_are_never_lost_or_shared) {
    constexpr std::uint32_t kSlots = 3;
    PendingTable table(kSlots, 1);
    std::atomic<int> owners[kSlots]{};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            Handle last = PendingTable::kNone;
            for (std::uint32_t i = 0; i < 8000; ++i) {
                Handle h = PendingTable::kNone;
                if ((i + t) % 3 == 0) {
                    const Handle wish = last + (Handle{1} << 32);  // the slot's next use, perhaps
                    if (table.adopt(wish, State::running, kNever)) h = wish;
                } else {
                    h = table.allocate(State::running, kNever);
                }
                if (h < 0) { std::this_thread::yield(); continue; }
                auto& owner = owners[PendingTable::slot_of(h)];
                CHECK(owner.fetch_add(1) == 0);
                CHECK(table.set_anchor(h, 0, i) && table.anchor(h, 0) == i);
                CHECK(!table.set_anchor(last, 0, 999));
                CHECK(table.anchor(h, 0) == i);
                CHECK(table.transition(h, State::running, State::finished));
                CHECK(owner.fetch_sub(1) == 1);
                CHECK(table.release(h));
                last = h;
            }
        });
    }
    Handle out[kSlots];
    for (int i = 0; i < 200; ++i) CHECK(table.expire(1e9, out) == 0);
    for (auto& thread : threads) thread.join();
    const auto counts = table.counts();
    CHECK(counts.free == kSlots && counts.running + counts.pending + counts.finished == 0);
    for (std::uint32_t i = 0; i < kSlots; ++i) CHECK(table.allocate(State::running, kNever) >= 0);
    CHECK(table.allocate(State::running, kNever) == PendingTable::kNone);
}

int main() { return check::run_all_tests(); }
