// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// StationarySolver: how often a ChainGraph visits each state, in the long run. Internal.
//
// A SWEEP pushes mass through the recurrent states once, in their order (recurrent_class.hpp). Mass
// is left only at the HEADS, states that transitions lead back to; they are few, since between two
// starts of the longest batch all leads forward. So a sweep is one step y -> T y of a Markov chain
// on the heads alone, and also one step of Gauss-Seidel on the whole. (Transitions from a state to
// itself are divided out.)
//
// Repeating sweeps would do if T mixed quickly. It need not: deterministic times make it periodic,
// rare hand-offs make it slow. GMRES on (I - T) y = 0 needs about as many sweeps as T has
// eigenvalues away from zero, wherever they lie: about ten. Where they are too many or too near 1
// (models that hardly ever hand over), T is written down, a sweep for each head, and solved by
// elimination.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chain_graph.hpp"
#include "gmres.hpp"
#include "recurrent_class.hpp"

namespace trcore {

class StationarySolver {
public:
    // Visits of each state, up to a common factor; 0 for transient states. Good until the next
    // call, which reuses its memory. Throws ReducibleChain unless there is exactly one recurrent
    // class, and StateSpaceTooLarge where only elimination could help, and would take too long.
    std::span<const double> solve(const ChainGraph& graph);

    [[nodiscard]] int sweeps() const noexcept { return sweeps_; }

private:
    void find_heads(const ChainGraph& graph);
    bool balance(const ChainGraph& graph);
    void eliminate(const ChainGraph& graph);
    // One sweep, from mass on the heads to mass on the heads.
    void sweep(const ChainGraph& graph, std::span<const double> from, std::span<double> to);

    int sweeps_ = 0;
    RecurrentClass recurrent_;
    Gmres gmres_;
    std::span<const std::uint32_t> order_;
    std::vector<std::uint32_t> position_;  // in order_, by state
    std::vector<std::uint32_t> heads_;
    std::vector<double> mass_;             // by state, all 0 between sweeps
    std::vector<double> visits_;           // by state, of the last sweep
    std::vector<double> now_, next_, best_, change_;  // by head
};

}  // namespace trcore
