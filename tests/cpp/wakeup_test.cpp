// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "check.hpp"
#include "trcore/wakeup.hpp"

using namespace std::chrono_literals;

// Two threads hand a number back and forth, sleeping for up to an hour: a lost wake-up hangs.
TEST(no_wakeup_is_lost) {
    trcore::Wakeup ping, pong;
    std::atomic<int> turn{0};
    constexpr int kRounds = 3000;
    const auto wait_for = [&turn](trcore::Wakeup& wakeup, int wanted) {
        for (;;) {
            const auto key = wakeup.prepare();
            if (turn.load(std::memory_order_relaxed) == wanted) return;  // ordered by prepare()
            wakeup.sleep(key, 1h);
        }
    };
    std::thread other([&] {
        for (int i = 0; i < kRounds; ++i) {
            wait_for(ping, 2 * i + 1);
            turn.store(2 * i + 2, std::memory_order_relaxed);
            pong.notify();
        }
    });
    for (int i = 0; i < kRounds; ++i) {
        turn.store(2 * i + 1, std::memory_order_relaxed);
        ping.notify();
        wait_for(pong, 2 * i + 2);
    }
    other.join();
}

TEST(notify_before_sleep_ends_it) {
    trcore::Wakeup wakeup;
    const auto key = wakeup.prepare();
    wakeup.notify();
    wakeup.sleep(key, 1h);
}

TEST(sleep_ends_after_its_timeout) {
    trcore::Wakeup wakeup;
    const auto start = trcore::Wakeup::Clock::now();
    wakeup.sleep(wakeup.prepare(), 20ms);
    CHECK(trcore::Wakeup::Clock::now() - start >= 19ms);
    wakeup.sleep(wakeup.prepare(), 0ns);
    wakeup.sleep(wakeup.prepare(), -5ns);
}

int main() { return check::run_all_tests(); }
