// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Wakeup: an eventcount in one 32-bit word, usable between processes.
//
//   waiter                                   notifier
//   key = prepare();        [W1]             make the condition true
//   if (condition) return;                   notify();               [N1]
//   sleep(key, timeout);
//
// Bit 0 says "somebody may sleep"; the bits above count notifications.
//
// No lost wake-up: W1 and N1 are read-modify-writes of the same word, so one comes first in its
// modification order. If N1 does, W1 acquires what N1 released and the waiter's check sees the
// condition. If W1 does, N1 sees bit 0 and wakes, and the changed count makes a sleeper that has
// not yet reached the kernel return at once. (This is why there is no atomic_thread_fence, which
// ThreadSanitizer doesn't model.)
//
// A waiter killed in its sleep leaves bit 0 set: the next notify() clears it with one needless
// system call. A *notifier* killed between making the condition true and the end of notify()
// wakes nobody, so waiters on memory shared with other processes must bound every sleep.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <ctime>
#include <thread>

#include "trcore/config.hpp"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace trcore {

class Wakeup {
public:
    using Clock = std::chrono::steady_clock;

    // Announces a sleeper and returns the key for sleep(). Check the condition in between.
    [[nodiscard]] std::uint32_t prepare() noexcept {
        // [W1] seq_cst RMW, pairs with the fetch_add in notify() [N1].
        return word_.fetch_or(kSleeper, std::memory_order_seq_cst) | kSleeper;
    }

    // Sleeps until notified after prepare(), or for `timeout`. May return early; check again.
    void sleep(std::uint32_t key, std::chrono::nanoseconds timeout) noexcept {
        if (timeout <= std::chrono::nanoseconds::zero()) return;
#if defined(__linux__)
        timespec relative{};
        const auto whole = std::chrono::duration_cast<std::chrono::seconds>(timeout);
        relative.tv_sec = static_cast<time_t>(whole.count());
        relative.tv_nsec = static_cast<long>((timeout - whole).count());
        // FUTEX_WAIT without the PRIVATE flag: the word may lie in memory shared by processes.
        syscall(SYS_futex, &word_, FUTEX_WAIT, key, &relative, nullptr, 0);
#else
        // No process-shared futex: bounded naps, from 20 µs up to 1 ms.
        const auto end = Clock::now() + timeout;
        auto nap = std::chrono::nanoseconds(std::chrono::microseconds(20));
        // acquire, pairs with [N1].
        while (word_.load(std::memory_order_acquire) == key && Clock::now() < end) {
            std::this_thread::sleep_for(nap);
            nap = std::min<std::chrono::nanoseconds>(nap * 2, std::chrono::milliseconds(1));
        }
#endif
    }

    // Wakes every sleeper. Without one it costs a single read-modify-write.
    void notify() noexcept {
        // [N1] seq_cst RMW, pairs with the fetch_or in prepare() [W1].
        const std::uint32_t before = word_.fetch_add(kStep, std::memory_order_seq_cst);
        if ((before & kSleeper) == 0) return;
        // relaxed: clears the hint only. A waiter that set the bit since N1 compares its key
        // with a count that N1 changed, or is woken by the call below.
        word_.fetch_and(~kSleeper, std::memory_order_relaxed);
#if defined(__linux__)
        syscall(SYS_futex, &word_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
#endif
    }

private:
    static constexpr std::uint32_t kSleeper = 1;
    static constexpr std::uint32_t kStep = 2;
    std::atomic<std::uint32_t> word_{0};
};

static_assert(sizeof(Wakeup) == 4);

}  // namespace trcore
