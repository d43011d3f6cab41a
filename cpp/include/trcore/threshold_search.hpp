// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// The best thresholds by simulation, where the Markov chain (dtmc.hpp) has too many states or
// doesn't apply.
#pragma once

#include <cstdint>
#include <vector>

#include "trcore/simulation.hpp"

namespace trcore {

struct SearchOptions {
    SimulationOptions simulation;         // of each evaluation
    std::vector<std::int64_t> start;      // thresholds to begin with; empty: all 1
    std::int64_t max_evaluations = 256;   // simulations
};

struct SearchedThresholds {
    std::vector<std::int64_t> thresholds;  // [M]
    double throughput = 0;                 // by the draws of the search, which flatter it a little
    double half_width = 0;                 // of a 95 % confidence interval
    std::vector<std::int64_t> candidates;  // [count, M] in the order in which they were simulated
    std::vector<double> throughputs;       // [count]
};

// Simulates all feasible thresholds if there are no more than max_evaluations. Else goes uphill
// from `start`, from all 1, and from what favours one model: a threshold changes by 1, 2, 4, ..., or
// two in opposite directions, as long as that helps; the best seen wins, ties as in best_of()
// (thresholds.hpp). All see the same draws. Throws std::invalid_argument that begins with the
// argument's name.
[[nodiscard]] SearchedThresholds search_thresholds(const RoutingModel& model,
                                                   std::int64_t requests,
                                                   const SearchOptions& options = {});

}  // namespace trcore
