// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// The loops over all open instances, where an assignment's time goes. Internal.
//
// Straight loops over columns that don't overlap, without branches, so that the compiler
// vectorises them; a maximum is taken in kLanes lanes, as it may not reorder it by itself. They
// are inlined into a function for each instruction set. Lengths are multiples of kLanes.
//
// NO FUSED MULTIPLY-ADD, or scores would differ in the last bit from one processor to another: the
// file that includes this is compiled with -ffp-contract=off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "trcore/open_instances.hpp"

#define TRCORE_KERNEL [[gnu::always_inline]] inline

namespace trcore::kernels {

inline constexpr std::size_t kLanes = OpenInstances::kLanes;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range { double low, high; };

// out[i] = table[index[i]]
TRCORE_KERNEL void gather(std::size_t n, const double* __restrict table,
                          const std::uint32_t* __restrict index, double* __restrict out) noexcept {
    for (std::size_t i = 0; i < n; ++i) out[i] = table[index[i]];
}

// Least and greatest of the values whose closed[i] is 0.
TRCORE_KERNEL Range range(std::size_t n, const double* __restrict values,
                          const double* __restrict closed) noexcept {
    double low[kLanes], high[kLanes];
    for (std::size_t l = 0; l < kLanes; ++l) {
        low[l] = kInfinity;
        high[l] = -kInfinity;
    }
    for (std::size_t i = 0; i < n; i += kLanes) {
        for (std::size_t l = 0; l < kLanes; ++l) {
            const double above = values[i + l] - closed[i + l];  // infinite where closed
            const double below = values[i + l] + closed[i + l];
            low[l] = above < low[l] ? above : low[l];
            high[l] = below > high[l] ? below : high[l];
        }
    }
    Range all{low[0], high[0]};
    for (std::size_t l = 1; l < kLanes; ++l) {
        all.low = low[l] < all.low ? low[l] : all.low;
        all.high = high[l] > all.high ? high[l] : all.high;
    }
    return all;
}

struct Limits { double prompt, total, max_usd, max_seconds; };

// Cost and time at each instance, and 0 in `closed` where the request may go, else -inf.
TRCORE_KERNEL void price(std::size_t n, const Limits& limits, const double* __restrict length,
                         const double* __restrict input_usd, const double* __restrict output_usd,
                         const double* __restrict tpot_s, const double* __restrict backlog,
                         const double* __restrict pending_prefill,
                         const double* __restrict prefill_s, const double* __restrict window,
                         const double* __restrict barred, double* __restrict usd,
                         double* __restrict seconds, double* __restrict closed) noexcept {
    const auto [prompt, total, max_usd, max_seconds] = limits;
    for (std::size_t i = 0; i < n; ++i) {
        const double cost = prompt * input_usd[i] + length[i] * output_usd[i];
        const double time = tpot_s[i] * (backlog[i] + length[i]) +
                            (pending_prefill[i] + prompt) * prefill_s[i];
        const bool open = (window[i] >= total) & (cost <= max_usd) & (time <= max_seconds);
        usd[i] = cost;
        seconds[i] = time;
        closed[i] = open ? barred[i] : -kInfinity;
    }
}

// The scores; returns the best of them. A divisor that is infinite makes its term 1.
TRCORE_KERNEL double score(std::size_t n, const double* __restrict weights, double most_usd,
                           double most_seconds, const double* __restrict quality,
                           const double* __restrict usd, const double* __restrict seconds,
                           const double* __restrict closed, double* __restrict out) noexcept {
    const double w_qual = weights[0], w_cost = weights[1], w_lat = weights[2];
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = w_qual * quality[i] + w_cost * (1.0 - usd[i] / most_usd) +
                 w_lat * (1.0 - seconds[i] / most_seconds) + closed[i];
    }
    double best[kLanes];
    for (std::size_t l = 0; l < kLanes; ++l) best[l] = -kInfinity;
    for (std::size_t i = 0; i < n; i += kLanes) {
        for (std::size_t l = 0; l < kLanes; ++l) best[l] = out[i + l] > best[l] ? out[i + l] : best[l];
    }
    double all = best[0];
    for (std::size_t l = 1; l < kLanes; ++l) all = best[l] > all ? best[l] : all;
    return all;
}

}  // namespace trcore::kernels
