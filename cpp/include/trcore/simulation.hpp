// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Delayed batching as a discrete-event simulation: what the Markov chain (dtmc.hpp) computes, also
// where it can't: many requests or models, routing that depends on the length of a run, step times
// that depend on what a request must read. Same policy (batching.hpp), virtual clock, no quanta.
//
// COMMON RANDOM NUMBERS: a request's n-th step is routed by a draw that depends on (seed, request,
// n) alone. So runs with different thresholds see the same requests, and their throughputs differ
// by less than two independent runs would.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trcore/routing_model.hpp"

namespace trcore {

// Which model starts when a shared device is free and several may.
enum class Turns : std::uint8_t {
    oldest,  // the one whose first request has waited longest
    next,    // in turn, beginning after the one that ran last: what the Markov chain does
};

struct SimulationOptions {
    std::int64_t tokens = 100'000;  // to commit in the measured part; 1/8 as many go before it
    std::uint64_t seed = 0;
    bool exclusive = false;         // the models share one device: one runs at a time
    Turns turns = Turns::oldest;
    // Seconds for each token that was committed since a request's last step at the model but one,
    // which any step reads; by model; empty: none. A batch's extra time is the sum over its
    // requests.
    std::vector<double> extend;
};

struct Simulated {
    double throughput = 0;         // tokens per second
    double half_width = 0;         // of its 95 % confidence interval, by batch means
    double seconds = 0;            // virtual, measured part
    double tokens = 0;             // committed in it
    std::int64_t steps = 0;        // requests in batches, in it
    std::vector<double> busy;      // share of the time that each model runs
    std::vector<double> batch;     // mean batch of each model, 0 for one that never ran
    std::vector<double> waiting;   // mean seconds from a request's arrival at a model to its start
};

// All requests begin waiting at model 0. It ends when `tokens` are committed, or after 64 steps for
// each of them where hardly any are. Throws std::invalid_argument that begins with the argument's
// name.
[[nodiscard]] Simulated simulate(const RoutingModel& model, std::int64_t requests,
                                 std::span<const std::int64_t> thresholds,
                                 const SimulationOptions& options = {});

}  // namespace trcore
