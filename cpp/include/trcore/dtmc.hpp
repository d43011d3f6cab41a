// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Delayed batching as a Markov chain: its exact throughput for given thresholds, and the best
// thresholds (TokenRouter, arXiv 2610.12242, appendix "math_model").
//
// The chain is embedded at batch completions. N requests; model i has k_i waiting, b_i running and
// r_i of its batch's time left, in whole quanta. When a model completes, its b_i requests split
// multinomially by row i of P; models that complete in the same quantum all do so before any
// starts; then each idle model with k_i >= B_i takes all k_i for L_i(k_i). Throughput is the mean
// of the tokens committed at a state's end over the mean of its length, by the stationary
// distribution. It starts with all requests waiting at model 0.
//
// EXCLUSIVE: the models share one device, so at most one runs. When it is free, the next one that
// may start does, in turn, beginning after the one that ran last. (The chain knows no ages.)
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "trcore/routing_model.hpp"

namespace trcore {

// The chain has more states than it may, or a state is too long to be stored.
class StateSpaceTooLarge : public std::invalid_argument {
public:
    using std::invalid_argument::invalid_argument;
};

// The chain has no single stationary distribution: where it ends depends on chance.
class ReducibleChain : public std::invalid_argument {
public:
    using std::invalid_argument::invalid_argument;
};

struct ChainOptions {
    // Seconds. 0: the coarsest that divides the shortest step into 1 to 64 and changes no step by
    // more than 0.1 % (else the one of those that changes them least); while the chain has too
    // many states, 0.3 % and 1 %.
    double quantum = 0;
    std::size_t max_states = 200'000;  // and 64 times as many transitions
    bool exclusive = false;
};

struct ChainSolution {
    double throughput = 0;          // tokens per second
    double quantum = 0;             // seconds
    std::size_t states = 0;         // that can be reached
    std::size_t transitions = 0;    // between different states
    int sweeps = 0;                 // passes over the transitions that the solution took
    std::vector<double> busy;       // share of the time that each model runs
    std::vector<double> batch;      // mean batch of each model, 0 for one that never runs
    std::vector<double> waiting;    // mean seconds from a request's arrival at a model to its start
};

// Throws std::invalid_argument that begins with the argument's name, StateSpaceTooLarge or
// ReducibleChain.
[[nodiscard]] ChainSolution solve(const RoutingModel& model, std::int64_t requests,
                                  std::span<const std::int64_t> thresholds,
                                  const ChainOptions& options = {});

struct BestThresholds {
    std::vector<std::int64_t> thresholds;   // [M]
    double throughput = 0;
    double quantum = 0;
    std::size_t largest_chain = 0;          // states
    std::vector<std::int64_t> candidates;   // [count, M], lexicographic: all feasible ones
    std::vector<double> throughputs;        // [count]
};

// The best of all feasible thresholds; best_of() (thresholds.hpp) says what happens to ties. Errors
// as in solve().
[[nodiscard]] BestThresholds best_thresholds(const RoutingModel& model, std::int64_t requests,
                                             const ChainOptions& options = {});

}  // namespace trcore
