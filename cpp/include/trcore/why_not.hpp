// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Why an instance may not have a request. Each rule is one inline function below: scoring filters
// by it (snapshot.cpp, request_scores.cpp, score_kernels.hpp), and why_not() names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trcore/instance_view.hpp"

namespace trcore {

// Bits, so that all that stands in the way can be told; 0: a candidate.
enum class WhyNot : std::uint8_t {
    draining = 1,
    unhealthy = 2,
    no_room = 4,
    lacks_capability = 8,
    model_not_allowed = 16,
    excluded = 32,
    above_max_usd = 64,
    above_max_seconds = 128,
};

// Prompt and answer together, in tokens.
[[gnu::always_inline]] inline bool has_room(double window, double total) noexcept {
    return window >= total;
}

[[gnu::always_inline]] inline bool is_open(std::uint8_t healthy, std::uint8_t draining) noexcept {
    return (healthy != 0) & (draining == 0);
}

inline bool has_capabilities(std::uint32_t capabilities, std::uint32_t needs) noexcept {
    return (capabilities & needs) == needs;
}

// By a mask, 0: not allowed; null: all are.
inline bool is_allowed(const std::uint8_t* mask, std::size_t at) noexcept {
    return mask == nullptr || mask[at] != 0;
}

[[gnu::always_inline]] inline bool is_within(double value, double ceiling) noexcept {
    return value <= ceiling;
}

struct AssignBatch;

// What each answer would cost and take, [R, I], as AssignOutputs has them: NaN where the instance
// is closed or has no room. Empty: not known, and no ceiling counts.
struct AssignPrices {
    std::span<const double> usd = {};
    std::span<const double> seconds = {};

    // Throws std::invalid_argument, which begins with the field's name.
    void check(std::size_t requests, std::size_t instance_count) const;
};

// Bits of WhyNot, [R, I], of a batch's requests; its weights, quality and length are not looked at.
// A closed row may hold anything. Under the view's lock. Throws std::invalid_argument, which begins
// with the field's name. `models`: M, of batch.models; anything if that isn't given.
void why_not(const InstanceView& view, const AssignBatch& batch, const AssignPrices& prices,
             std::size_t models, std::span<std::uint8_t> to);

}  // namespace trcore
