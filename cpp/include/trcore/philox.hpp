// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Philox4x64-10 (Salmon et al., SC'11): random numbers as a function of a key and a counter.
#pragma once

#include <array>
#include <cstdint>

namespace trcore {

// Ten rounds on a counter of four words, the low one first.
[[nodiscard]] constexpr std::array<std::uint64_t, 4> philox4x64(
    std::array<std::uint64_t, 4> counter, std::array<std::uint64_t, 2> key) noexcept {
    __extension__ using Wide = unsigned __int128;
    for (int round = 0; round < 10; ++round) {
        const Wide first = Wide{0xD2E7470EE14C6C93U} * counter[0];
        const Wide third = Wide{0xCA5A826395121157U} * counter[2];
        counter = {static_cast<std::uint64_t>(third >> 64U) ^ counter[1] ^ key[0],
                   static_cast<std::uint64_t>(third),
                   static_cast<std::uint64_t>(first >> 64U) ^ counter[3] ^ key[1],
                   static_cast<std::uint64_t>(first)};
        key[0] += 0x9E3779B97F4A7C15U;
        key[1] += 0xBB67AE8584CAA73BU;
    }
    return counter;
}

// A number in [0, 1) with 53 random bits, the one that numpy's Philox(key=seed, counter=[position,
// stream, 0, 0]) gives first: numpy counts on before it draws.
[[nodiscard]] constexpr double uniform(std::uint64_t seed, std::uint64_t position,
                                       std::uint64_t stream) noexcept {
    const std::uint64_t low = position + 1;
    const std::array<std::uint64_t, 4> drawn =
        philox4x64({low, stream + (low == 0 ? 1U : 0U), 0, 0}, {seed, 0});
    return static_cast<double>(drawn[0] >> 11U) * 0x1p-53;
}

}  // namespace trcore
