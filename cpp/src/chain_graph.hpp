// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// ChainGraph: the Markov chain of dtmc.hpp as a sparse matrix, and what builds it. Internal.
//
// A STATE is what holds just after batches were started: k_i waiting, b_i running, r_i quanta left
// (0: idle), packed in two words:
//   counts   k_0 | b_0 << w | k_1 << 2w | ...     w = bits of N
//   times    r_0 | r_1 << v | ...                 v = bits of the longest step, in quanta
// It lasts until the next completion, min r_i over the running. So moving j requests from one
// queue to another is one addition to `counts`, the same for all states: the multinomial splits
// of every (model, batch) are computed once, as differences of `counts` and probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trcore/routing_model.hpp"

namespace trcore {

struct ChainState {
    std::uint64_t counts;
    std::uint64_t times;
    friend bool operator==(const ChainState&, const ChainState&) = default;
};

struct ChainGraph {
    std::vector<ChainState> states;  // in order of discovery, the initial one first
    std::vector<double> lasts;       // quanta until the next completion
    std::vector<double> committed;   // tokens at that completion, their mean
    // Transitions to other states, row by row: those of s are [first[s], first[s + 1]).
    std::vector<std::uint32_t> first;
    std::vector<std::uint32_t> to;
    std::vector<double> probability;
    std::vector<double> leave;       // sum of a row: 1 - the probability to stay

    [[nodiscard]] std::size_t size() const noexcept { return states.size(); }
};

class ChainBuilder {
public:
    // Throws StateSpaceTooLarge if a state doesn't fit in two words.
    ChainBuilder(const RoutingModel& model, std::int64_t requests, double quantum, bool exclusive,
                 std::size_t max_states);

    // All states that can be reached from "all requests wait at model 0". Good until the next
    // call, which reuses its memory. Throws StateSpaceTooLarge above max_states.
    const ChainGraph& build(std::span<const std::int64_t> thresholds);

    [[nodiscard]] std::uint64_t waiting(const ChainState& s, std::size_t model) const noexcept {
        return s.counts >> (2 * model * count_bits_) & count_mask_;
    }
    [[nodiscard]] std::uint64_t running(const ChainState& s, std::size_t model) const noexcept {
        return s.counts >> ((2 * model + 1) * count_bits_) & count_mask_;
    }
    [[nodiscard]] std::uint64_t left(const ChainState& s, std::size_t model) const noexcept {
        return s.times >> (model * time_bits_) & time_mask_;
    }

private:
    struct Split {
        std::uint64_t counts;  // to be added
        double probability;
    };

    const std::vector<Split>& splits(std::size_t model, std::uint64_t batch);
    void expand(std::uint32_t from);
    std::span<const Split> outcomes(std::span<const std::size_t> completed, const ChainState& s);
    void start(ChainState& s, std::size_t model) const noexcept;
    std::uint32_t index_of(const ChainState& s);
    void grow_table();
    [[noreturn]] void too_large(std::size_t reached) const;

    const RoutingModel& model_;
    std::uint64_t requests_;
    bool exclusive_;
    std::size_t max_states_;
    unsigned count_bits_;
    unsigned time_bits_;
    std::uint64_t count_mask_;
    std::uint64_t time_mask_;
    std::vector<std::uint64_t> quanta_;            // [M, N + 1] by batch
    std::vector<double> committed_each_;           // [M] mean of a request's step
    std::vector<std::vector<Split>> splits_;       // [M, N + 1], filled when first needed
    std::vector<std::int64_t> thresholds_;
    ChainGraph graph_;
    // Open addressing: upper half of the hash | index + 1, 0 where empty.
    std::vector<std::uint64_t> table_;
    std::vector<Split> product_, merged_;          // scratch of outcomes()
};

}  // namespace trcore
