// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "stationary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "elimination.hpp"
#include "trcore/dtmc.hpp"

namespace trcore {
namespace {

// Error of the mass on the heads, which is 1 in all (1-norm): what we want, and what will do where
// rounding allows no more.
constexpr double kTolerance = 1e-11;
constexpr double kGoodEnough = 1e-10;
// What rounding alone leaves of a sweep's change.
constexpr double kRounding = 1e-14;
constexpr int kPatience = 4;               // cycles of GMRES before elimination
constexpr int kMostCycles = 100;           // where elimination would take too long
constexpr std::size_t kMostHeads = 2048;   // for elimination: some seconds, 32 MiB

}  // namespace

std::span<const double> StationarySolver::solve(const ChainGraph& graph) {
    sweeps_ = 0;
    visits_.assign(graph.size(), 0.0);
    order_ = recurrent_.find(graph);
    if (order_.size() == 1) {  // it never leaves
        visits_[order_[0]] = 1;
        return visits_;
    }
    find_heads(graph);
    mass_.assign(graph.size(), 0.0);
    if (!balance(graph)) eliminate(graph);
    return visits_;
}

void StationarySolver::find_heads(const ChainGraph& graph) {
    position_.assign(graph.size(), std::numeric_limits<std::uint32_t>::max());
    for (std::uint32_t i = 0; i < order_.size(); ++i) position_[order_[i]] = i;
    heads_.clear();
    for (std::uint32_t i = 0; i < order_.size(); ++i) {
        for (std::uint32_t e = graph.first[order_[i]]; e < graph.first[order_[i] + 1]; ++e) {
            std::uint32_t& to = position_[graph.to[e]];
            if (to < i) {
                heads_.push_back(graph.to[e]);
                to = std::numeric_limits<std::uint32_t>::max();  // once is enough
            }
        }
    }
}

// Sweeps until the mass on the heads comes back as it was; visits_ are then those of a sweep. False
// if that takes too long, or rounding would spoil it.
bool StationarySolver::balance(const ChainGraph& graph) {
    const std::size_t n = heads_.size();
    now_.resize(n);
    // Uneven, so that no slow part is balanced by chance and thereby unseen: from an even start,
    // models that hardly ever hand over seem to be in balance at once.
    for (std::size_t i = 0; i < n; ++i) {
        const double uneven = 0.6180339887498949 * static_cast<double>(i + 1);
        now_[i] = (0.5 + uneven - std::floor(uneven)) / static_cast<double>(n);
    }
    next_.assign(n, 0.0);
    change_.assign(n, 0.0);
    const auto product = [&](std::span<const double> v, std::span<double> tv) {
        sweep(graph, v, tv);
    };
    // How much larger the error of the result may be than the change of y in a sweep: visits that
    // last, times what GMRES finds of slow mixing.
    double lasting = 1;
    for (const std::uint32_t s : order_) lasting = std::min(lasting, graph.leave[s]);
    double amplified = 1 / lasting;
    double least = std::numeric_limits<double>::infinity();
    const int most = n <= kMostHeads ? kPatience : kMostCycles;
    for (int cycle = 0; cycle < most; ++cycle) {
        sweep(graph, now_, next_);
        double change = 0;
        for (std::size_t i = 0; i < n; ++i) {
            change_[i] = next_[i] - now_[i];
            change += std::abs(change_[i]);
        }
        if (cycle > 0 && change * amplified <= kTolerance) return true;
        if (change <= kRounding && cycle > 0) return change * amplified <= kGoodEnough;
        if (change >= least) {  // rounding spoilt the correction: mix, then try again
            for (std::size_t i = 0; i < n; ++i) now_[i] = (best_[i] + next_[i]) / 2;
            least = std::numeric_limits<double>::infinity();
            continue;
        }
        least = change;
        best_ = now_;
        const double residual = std::max(kRounding, kTolerance * 1e-2 / amplified) /
                                std::sqrt(static_cast<double>(n));
        const std::span<const double> z = gmres_.solve(product, change_, residual);
        amplified = std::max(amplified, gmres_.amplification() / lasting);
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) {
            now_[i] = std::max(now_[i] + z[i], 0.0);
            sum += now_[i];
        }
        for (double& y : now_) y /= sum;
    }
    return false;
}

void StationarySolver::eliminate(const ChainGraph& graph) {
    const std::size_t n = heads_.size();
    if (n > kMostHeads) {
        throw StateSpaceTooLarge("the chain has " + std::to_string(graph.size()) +
                                 " states and mixes so slowly that the limit would be about " +
                                 std::to_string(graph.size() * kMostHeads / n) +
                                 ": take a coarser quantum, or use simulate");
    }
    std::vector<double> transitions(n * n);
    std::vector<double> unit(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
        unit[i] = 1;
        sweep(graph, unit, {transitions.data() + i * n, n});
        unit[i] = 0;
    }
    stationary_by_elimination(transitions, now_);
    sweep(graph, now_, next_);
}

void StationarySolver::sweep(const ChainGraph& graph, std::span<const double> from,
                             std::span<double> to) {
    ++sweeps_;
    for (std::size_t i = 0; i < heads_.size(); ++i) mass_[heads_[i]] = from[i];
    for (const std::uint32_t s : order_) {
        const double visits = mass_[s] / graph.leave[s];
        visits_[s] = visits;
        mass_[s] = 0;
        for (std::uint32_t e = graph.first[s]; e < graph.first[s + 1]; ++e) {
            mass_[graph.to[e]] += visits * graph.probability[e];
        }
    }
    for (std::size_t i = 0; i < heads_.size(); ++i) {
        to[i] = mass_[heads_[i]];
        mass_[heads_[i]] = 0;
    }
}

}  // namespace trcore
