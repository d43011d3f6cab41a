// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Which thresholds B for delayed batching (batching.hpp) may be chosen for N requests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trcore {

// Throws std::invalid_argument ("N:", "B:") unless N >= 1, there is a B_i of 1 to N for each model,
// and they cannot deadlock.
void check_thresholds(std::size_t models, std::int64_t requests,
                      std::span<const std::int64_t> thresholds);

// All B with 1 <= B_i <= N that cannot deadlock, one after another ([count, M] in one vector), in
// lexicographic order. Throws std::invalid_argument ("N:") if there are more than `most`.
[[nodiscard]] std::vector<std::int64_t> feasible_thresholds(std::size_t models,
                                                            std::int64_t requests,
                                                            std::size_t most);

// How many those are, or `most` if there are at least so many.
[[nodiscard]] std::size_t count_feasible(std::size_t models, std::int64_t requests,
                                         std::size_t most) noexcept;

// Which of `candidates` ([count, M]) to take: among those within 1e-9 (relative) of the highest
// throughput the one with the smallest sum, then the first in order
[[nodiscard]] std::size_t best_of(std::size_t models, std::span<const std::int64_t> candidates,
                                  std::span<const double> throughputs);

// "(1, 3)", for messages.
[[nodiscard]] std::string show_thresholds(std::span<const std::int64_t> thresholds);

}  // namespace trcore
