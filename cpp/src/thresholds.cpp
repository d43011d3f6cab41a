// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/thresholds.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "trcore/batching.hpp"

namespace trcore {

std::string show_thresholds(std::span<const std::int64_t> thresholds) {
    std::string text = "(";
    for (const std::int64_t value : thresholds) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(value);
    }
    return text + ")";
}

void check_thresholds(std::size_t models, std::int64_t requests,
                      std::span<const std::int64_t> thresholds) {
    if (requests < 1) {
        throw std::invalid_argument("N: must be 1 or more, not " + std::to_string(requests));
    }
    if (thresholds.size() != models) {
        throw std::invalid_argument("B: must hold " + std::to_string(models) +
                                    " thresholds, one for each model, not " +
                                    std::to_string(thresholds.size()));
    }
    for (const std::int64_t b : thresholds) {
        if (b < 1) throw std::invalid_argument("B: must be 1 or more, not " + std::to_string(b));
    }
    if (!deadlock_free(thresholds, requests)) {
        throw std::invalid_argument("B: " + show_thresholds(thresholds) + " deadlocks " +
                                    std::to_string(requests) +
                                    " requests: the sum of (B_i - 1) must be below N");
    }
}

std::vector<std::int64_t> feasible_thresholds(std::size_t models, std::int64_t requests,
                                              std::size_t most) {
    if (requests < 1) {
        throw std::invalid_argument("N: must be 1 or more, not " + std::to_string(requests));
    }
    if (count_feasible(models, requests, most + 1) > most) {
        throw std::invalid_argument("N: more than " + std::to_string(most) +
                                    " thresholds are feasible: use search_thresholds");
    }
    std::vector<std::int64_t> all;
    std::vector<std::int64_t> now(models, 1);
    for (;;) {
        all.insert(all.end(), now.begin(), now.end());
        std::size_t at = models;  // the next one, as in counting
        while (at > 0) {
            ++now[at - 1];
            if (deadlock_free(now, requests)) break;
            now[at - 1] = 1;
            --at;
        }
        if (at == 0) return all;
    }
}

// Of M numbers B_i - 1 >= 0 with a sum of at most N - 1 there are (N - 1 + M over M).
std::size_t count_feasible(std::size_t models, std::int64_t requests, std::size_t most) noexcept {
    double count = 1;
    for (std::size_t i = 1; i <= models; ++i) {
        count *= static_cast<double>(requests - 1) / static_cast<double>(i) + 1;
        if (count >= static_cast<double>(most)) return most;
    }
    return static_cast<std::size_t>(count + 0.5);
}

std::size_t best_of(std::size_t models, std::span<const std::int64_t> candidates,
                    std::span<const double> throughputs) {
    constexpr double kTie = 1e-9;
    const double highest = *std::max_element(throughputs.begin(), throughputs.end());
    std::size_t best = 0;
    std::int64_t least = 0;
    for (std::size_t i = 0; i < throughputs.size(); ++i) {
        if (throughputs[i] < highest * (1 - kTie)) continue;
        const auto b = candidates.subspan(i * models, models);
        const std::int64_t sum = std::accumulate(b.begin(), b.end(), std::int64_t{0});
        if (least != 0 && sum >= least) continue;
        best = i;
        least = sum;
    }
    return best;
}

}  // namespace trcore
