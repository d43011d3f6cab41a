// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// What the other headers assume of the platform, in one place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#error "trcore needs POSIX shared memory (Linux or macOS)"
#endif

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace trcore {

// Words written by different parties are kept this far apart. A fixed number rather than
// std::hardware_destructive_interference_size: it is part of a layout that two separately
// compiled processes must agree on.
inline constexpr std::size_t kCacheLine = 64;

// Every shared word must be lock-free: a hidden mutex in libatomic isn't shared between processes.
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && sizeof(std::atomic<std::uint64_t>) == 8);

// Tells the core that this is a spin loop (frees the sibling hyper-thread, saves power).
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace trcore
