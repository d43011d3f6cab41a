// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/dtmc.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "chain_graph.hpp"
#include "stationary.hpp"
#include "trcore/thresholds.hpp"

namespace trcore {
namespace {

constexpr std::int64_t kMostRequests = 4096;
constexpr std::size_t kMostStates = 1U << 25U;
constexpr std::size_t kMostCandidates = 100'000;
constexpr int kFinest = 64;
constexpr std::array<double, 3> kTolerances{0.001, 0.003, 0.01};

// The coarsest quantum of 1 to kFinest in the shortest step that changes no step by more than
// `tolerance` (relative), else the one of those that changes them least.
double quantum_for(const RoutingModel& model, std::int64_t requests, double tolerance) {
    const double least = model.least_seconds(static_cast<std::size_t>(requests));
    double best = least;
    double best_error = std::numeric_limits<double>::infinity();
    for (int n = 1; n <= kFinest && best_error > tolerance; ++n) {
        const double quantum = least / n;
        double error = 0;
        for (std::size_t i = 0; i < model.models(); ++i) {
            for (std::int64_t b = 1; b <= requests; ++b) {
                const double quanta = model.seconds(i, static_cast<std::size_t>(b)) / quantum;
                error = std::max(error, std::abs(std::round(quanta) / quanta - 1));
            }
        }
        if (error < best_error) {
            best_error = error;
            best = quantum;
        }
    }
    return best;
}

void check(const RoutingModel& model, std::int64_t requests, const ChainOptions& options) {
    if (model.runs() != 1) {
        throw std::invalid_argument("P: the chain knows no run lengths, it must have the shape "
                                    "[M, M]: use simulate");
    }
    if (requests < 1) {
        throw std::invalid_argument("N: must be 1 or more, not " + std::to_string(requests));
    }
    if (requests > kMostRequests) {
        throw StateSpaceTooLarge("N: a chain of " + std::to_string(requests) +
                                 " requests is too large, the limit is " +
                                 std::to_string(kMostRequests) + ": use simulate");
    }
    if (!(options.quantum >= 0) || !std::isfinite(options.quantum)) {
        throw std::invalid_argument("quantum: must be finite and above 0, not " +
                                    std::to_string(options.quantum));
    }
    if (options.max_states < 1 || options.max_states > kMostStates) {
        throw std::invalid_argument("max_states: must be 1 to " + std::to_string(kMostStates) +
                                    ", not " + std::to_string(options.max_states));
    }
}

// Models that a request at `from` can come to, as bits; `from` among them.
std::uint32_t reachable(const RoutingModel& model, std::size_t from) {
    std::uint32_t reached = 1U << from;
    for (std::uint32_t before = 0; before != reached;) {
        before = reached;
        for (std::size_t i = 0; i < model.models(); ++i) {
            if ((before >> i & 1U) == 0) continue;
            for (std::size_t j = 0; j < model.models(); ++j) {
                if (model.routing(0, i)[j] > 0) reached |= 1U << j;
            }
        }
    }
    return reached;
}

// Two sets of models that requests come to and never leave: where a request ends depends on chance.
void check_one_class(const RoutingModel& model) {
    std::vector<std::uint32_t> closed;
    const std::uint32_t all = reachable(model, 0);
    for (std::size_t i = 0; i < model.models(); ++i) {
        if ((all >> i & 1U) == 0) continue;
        const std::uint32_t from_here = reachable(model, i);
        bool returns = true;
        for (std::size_t j = 0; j < model.models(); ++j) {
            if ((from_here >> j & 1U) != 0) returns = returns && (reachable(model, j) >> i & 1U) != 0;
        }
        if (returns && std::find(closed.begin(), closed.end(), from_here) == closed.end()) {
            closed.push_back(from_here);
        }
    }
    if (closed.size() < 2) return;
    std::string sets;
    for (const std::uint32_t models : closed) {
        sets += sets.empty() ? "{" : " and {";
        const char* comma = "";
        for (std::size_t i = 0; i < model.models(); ++i) {
            if ((models >> i & 1U) == 0) continue;
            sets += comma + std::to_string(i);
            comma = ", ";
        }
        sets += "}";
    }
    throw ReducibleChain("P: requests come to the models " + sets +
                         " and never leave them: there is no single long run");
}

// Calls run(quantum). If the quantum is ours to choose, coarser ones too while there are too many
// states; no coarser than kTolerances allow, since steps that only nearly coincide may differ by
// several percent in throughput from steps that do.
template <class Run>
auto with_quantum(const RoutingModel& model, std::int64_t requests, const ChainOptions& options,
                  Run&& run) {
    if (options.quantum > 0) return run(options.quantum);
    for (const double tolerance : kTolerances) {
        try {
            return run(quantum_for(model, requests, tolerance));
        } catch (const StateSpaceTooLarge&) {
            if (tolerance == kTolerances.back()) throw;
        }
    }
    throw std::logic_error("no tolerance");
}

ChainSolution summarise(const ChainBuilder& builder, const RoutingModel& model,
                        const ChainGraph& graph, std::span<const double> visits, double quantum) {
    const std::size_t models = model.models();
    ChainSolution solution;
    solution.quantum = quantum;
    solution.states = graph.size();
    solution.transitions = graph.to.size();
    std::vector<double> busy(models), queued(models), batches(models), requests(models);
    double time = 0;
    double committed = 0;
    for (std::size_t s = 0; s < graph.size(); ++s) {
        if (visits[s] == 0) continue;
        const double lasts = visits[s] * graph.lasts[s];
        time += lasts;
        committed += visits[s] * graph.committed[s];
        for (std::size_t i = 0; i < models; ++i) {
            const std::uint64_t left = builder.left(graph.states[s], i);
            queued[i] += lasts * static_cast<double>(builder.waiting(graph.states[s], i));
            if (left == 0) continue;
            busy[i] += lasts;
            if (static_cast<double>(left) != graph.lasts[s]) continue;  // doesn't complete
            batches[i] += visits[s];
            requests[i] += visits[s] * static_cast<double>(builder.running(graph.states[s], i));
        }
    }
    solution.throughput = committed / (time * quantum);
    for (std::size_t i = 0; i < models; ++i) {
        solution.busy.push_back(busy[i] / time);
        solution.batch.push_back(batches[i] > 0 ? requests[i] / batches[i] : 0);
        // Little's law: the mean queue over the rate of requests through it.
        solution.waiting.push_back(requests[i] > 0 ? queued[i] * quantum / requests[i] : 0);
    }
    return solution;
}

}  // namespace

ChainSolution solve(const RoutingModel& model, std::int64_t requests,
                    std::span<const std::int64_t> thresholds, const ChainOptions& options) {
    check(model, requests, options);
    check_one_class(model);
    check_thresholds(model.models(), requests, thresholds);
    return with_quantum(model, requests, options, [&](double quantum) {
        ChainBuilder builder(model, requests, quantum, options.exclusive, options.max_states);
        const ChainGraph& graph = builder.build(thresholds);
        StationarySolver solver;
        const std::span<const double> visits = solver.solve(graph);
        ChainSolution solution = summarise(builder, model, graph, visits, quantum);
        solution.sweeps = solver.sweeps();
        return solution;
    });
}

BestThresholds best_thresholds(const RoutingModel& model, std::int64_t requests,
                               const ChainOptions& options) {
    check(model, requests, options);
    check_one_class(model);
    const std::size_t models = model.models();
    BestThresholds best;
    best.candidates = feasible_thresholds(models, requests, kMostCandidates);
    return with_quantum(model, requests, options, [&](double quantum) {
        best.quantum = quantum;
        best.largest_chain = 0;
        best.throughputs.clear();
        ChainBuilder builder(model, requests, quantum, options.exclusive, options.max_states);
        StationarySolver solver;
        for (std::size_t at = 0; at < best.candidates.size(); at += models) {
            const ChainGraph& graph = builder.build({&best.candidates[at], models});
            const std::span<const double> visits = solver.solve(graph);
            double time = 0;
            double committed = 0;
            for (std::size_t s = 0; s < graph.size(); ++s) {
                time += visits[s] * graph.lasts[s];
                committed += visits[s] * graph.committed[s];
            }
            best.throughputs.push_back(committed / (time * quantum));
            best.largest_chain = std::max(best.largest_chain, graph.size());
        }
        const std::size_t chosen = best_of(models, best.candidates, best.throughputs);
        const auto first = best.candidates.begin() + static_cast<std::ptrdiff_t>(chosen * models);
        best.thresholds.assign(first, first + static_cast<std::ptrdiff_t>(models));
        best.throughput = best.throughputs[chosen];
        return best;
    });
}

}  // namespace trcore
