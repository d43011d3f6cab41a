// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Delayed batching as pure functions: when may a model start a batch? One source for the live
// subserver, the Markov chain (dtmc.hpp) and the simulation (simulation.hpp).
//
// TokenRouter (arXiv 2610.12242), section 4: a batch starts only when B requests wait, so that a
// hand-off that arrives a moment later shares the forward instead of waiting for the next one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace trcore {

// Whether some model can always start: sum(B_i - 1) < N, N = requests now active.
//
// If every model waited with at most B_i - 1 requests, all together would hold at most
// sum(B_i - 1) requests; with N above that, one of them has B_i. A threshold below 1 counts as 1,
// as it does in may_start().
[[nodiscard]] constexpr bool deadlock_free(std::span<const std::int64_t> thresholds,
                                           std::int64_t active) noexcept {
    std::int64_t left = active;  // counted down and given up early: no sum that overflows
    for (const std::int64_t b : thresholds) {
        if (b > 1 && left <= b - 1) return false;
        left -= std::max<std::int64_t>(1, b) - 1;
    }
    return left > 0;
}

// The given thresholds, the largest of them (the last, among equals) lowered one by one until
// `active` cannot deadlock. To be evaluated again at every arrival and finish. With no active
// request all are 1.
[[nodiscard]] inline std::vector<std::int64_t> effective_thresholds(
    std::span<const std::int64_t> thresholds, std::int64_t active) {
    std::vector<std::int64_t> effective(thresholds.begin(), thresholds.end());
    for (std::int64_t& b : effective) b = std::max<std::int64_t>(1, b);
    if (effective.empty() || deadlock_free(effective, active)) return effective;
    // None above N can stay, and the largest goes first: all those come down to N before any other
    // is touched.
    for (std::int64_t& b : effective) b = std::min(b, std::max<std::int64_t>(1, active));
    while (!deadlock_free(effective, active)) {
        const auto largest = std::max_element(effective.rbegin(), effective.rend());
        if (*largest == 1) break;
        --*largest;
    }
    return effective;
}

// Whether an idle model with `waiting` requests starts a batch (it then takes all of them).
[[nodiscard]] constexpr bool may_start(std::int64_t waiting, std::int64_t threshold) noexcept {
    return waiting >= std::max<std::int64_t>(1, threshold);
}

}  // namespace trcore
