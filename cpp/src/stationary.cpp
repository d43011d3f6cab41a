// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "stationary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace trcore {
namespace {

// Error of the mass on the heads, which is 1 in all (1-norm).
constexpr double kTolerance = 1e-11;
// What rounding alone leaves of a sweep's change.
constexpr double kRounding = 1e-14;
constexpr int kMostCycles = 200;

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
    balance(graph);
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

// Sweeps until the mass on the heads comes back as it was; visits_ are then those of a sweep.
void StationarySolver::balance(const ChainGraph& graph) {
    const std::size_t n = heads_.size();
    now_.assign(n, 1.0 / static_cast<double>(n));
    next_.assign(n, 0.0);
    change_.assign(n, 0.0);
    const auto product = [&](std::span<const double> v, std::span<double> tv) {
        sweep(graph, v, tv);
    };
    // How much larger the error of y may be than its change in a sweep; from what the last
    // correction took to make up for such a change.
    double amplified = 1;
    double least = std::numeric_limits<double>::infinity();
    for (int cycle = 0; cycle < kMostCycles; ++cycle) {
        sweep(graph, now_, next_);
        double change = 0;
        double square = 0;
        for (std::size_t i = 0; i < n; ++i) {
            change_[i] = next_[i] - now_[i];
            change += std::abs(change_[i]);
            square += change_[i] * change_[i];
        }
        if (change * amplified <= kTolerance || (change <= kRounding && cycle > 0)) return;
        if (change < least) {
            least = change;
            best_ = now_;
        } else {  // rounding spoilt the correction, or it came to no end: mix, then try again
            for (std::size_t i = 0; i < n; ++i) now_[i] = (best_[i] + next_[i]) / 2;
            least = std::numeric_limits<double>::infinity();
            continue;
        }
        const double residual = std::max(kRounding, kTolerance * 1e-2 / amplified) /
                                std::sqrt(static_cast<double>(n));
        const std::span<const double> z = gmres_.solve(product, change_, residual);
        double length = 0;
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) {
            length += z[i] * z[i];
            now_[i] = std::max(now_[i] + z[i], 0.0);
            sum += now_[i];
        }
        for (double& y : now_) y /= sum;
        amplified = std::max(1.0, std::sqrt(length / square));
    }
    throw std::runtime_error("the chain's stationary distribution was not found: use simulate");
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
