// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Producers that are killed by SIGKILL inside push(), in processes of their own.
#include <sys/wait.h>

#include "check.hpp"
#include "ring_memory.hpp"

using namespace std::chrono_literals;

enum class Point { none, after_reserve, before_publish };

struct Killing {
    static constexpr std::memory_order kPublishOrder = std::memory_order_release;
    static inline Point at = Point::none;
    static void after_reserve() noexcept { if (at == Point::after_reserve) ::raise(SIGKILL); }
    static void before_publish() noexcept { if (at == Point::before_publish) ::raise(SIGKILL); }
};
using Ring = trcore::BasicPeerRing<Killing>;

// A child that pushes "before" and is killed while it pushes `length` bytes. With `reap` it is
// gone afterwards, else a zombie.
pid_t killed_producer(const SharedRing& memory, Point at, std::size_t length, bool reap) {
    const pid_t child = ::fork();
    if (child == 0) {
        Ring ring(memory.parts);
        ring.join_as_producer(trcore::this_process());
        if (!ring.push(bytes_of("before"))) ::_exit(1);
        Killing::at = at;
        static_cast<void>(ring.push(bytes_of(std::string(length, 'd'))));
        ::_exit(2);
    }
    siginfo_t info{};
    CHECK(::waitid(P_PID, static_cast<id_t>(child), &info, reap ? WEXITED : WEXITED | WNOWAIT) == 0);
    CHECK(info.si_code == CLD_KILLED);
    return child;
}

std::vector<std::string> drain_until(Ring& ring, std::size_t count) {
    std::vector<std::string> all;
    while (all.size() < count) {
        CHECK(ring.wait(10s));
        for (auto& text : drain(ring)) all.push_back(std::move(text));
    }
    return all;
}

TEST(the_consumer_goes_on_past_a_dead_producer) {
    for (const Point at : {Point::after_reserve, Point::before_publish}) {
        for (const bool reap : {true, false}) {
            SharedRing memory(1024);
            Ring ring(memory.parts);
            const pid_t child = killed_producer(memory, at, 900, reap);  // all but one cell
            ring.join_as_producer(trcore::this_process());  // needn't sweep: another slot, or D's
            CHECK(drain_until(ring, 1) == std::vector<std::string>{"before"});
            while (!ring.push(bytes_of("after"))) {  // room comes back when the gap is skipped
                static_cast<void>(ring.wait(10s));
                drain(ring);
            }
            CHECK(drain_until(ring, 1) == std::vector<std::string>{"after"});
            CHECK(ring.abandoned() == 1);
            for (int i = 0; i < 40; ++i) {  // the ring is whole: laps go on
                CHECK(ring.push(bytes_of(std::string(500, 'x'))));
                CHECK(drain(ring).size() == 1);
            }
            if (!reap) ::waitpid(child, nullptr, 0);
        }
    }
}

TEST(records_behind_the_gap_arrive_in_order) {
    SharedRing memory(4096);
    Ring ring(memory.parts);
    trcore::BasicPeerRing<Killing> other(memory.parts);
    other.join_as_producer(trcore::this_process());  // slot 0 lives, the child has slot 1
    killed_producer(memory, Point::after_reserve, 10, true);
    CHECK(other.push(bytes_of("1")) && other.push(bytes_of("2")));
    CHECK(drain_until(ring, 3) == (std::vector<std::string>{"before", "1", "2"}));
    CHECK(ring.abandoned() == 1);
}

TEST(a_dead_producers_slot_is_swept_before_it_serves_again) {
    SharedRing memory(4096);
    Ring ring(memory.parts);
    killed_producer(memory, Point::before_publish, 10, true);
    killed_producer(memory, Point::after_reserve, 10, true);  // takes slot 0 over, dies as well
    ring.join_as_producer(trcore::this_process());            // and once more
    CHECK(ring.abandoned() == 2);  // by the sweeps: nobody has drained
    CHECK(memory.parts.control->producers[1].load() == 0);
    CHECK(ring.push(bytes_of("after")));
    CHECK(drain(ring) == (std::vector<std::string>{"before", "before", "after"}));
}

int main() { return check::run_all_tests(); }
