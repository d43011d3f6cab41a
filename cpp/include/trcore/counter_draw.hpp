// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Uniform numbers as a function of (seed, stream, step), never of a generator's history: the state
// of SplitMix64 (Steele, Lea, Flood 2014) for a given step is a sum, so any step is as near as the
// next.
#pragma once

#include <cstdint>

namespace trcore {

[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
}

// The numbers of one stream.
class CounterDraw {
public:
    constexpr CounterDraw(std::uint64_t seed, std::uint64_t stream) noexcept
        : key_(mix_bits(mix_bits(seed + kStep) + stream * kStep)) {}

    // In [0, 1), 53 random bits.
    [[nodiscard]] constexpr double operator()(std::uint64_t step) const noexcept {
        return static_cast<double>(mix_bits(key_ + (step + 1) * kStep) >> 11U) * 0x1p-53;
    }

private:
    static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15U;

    std::uint64_t key_;
};

}  // namespace trcore
