// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/threshold_search.hpp"

#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "trcore/batching.hpp"
#include "trcore/thresholds.hpp"

namespace trcore {
namespace {

using Thresholds = std::vector<std::int64_t>;

class Search {
public:
    Search(const RoutingModel& model, std::int64_t requests, const SearchOptions& options)
        : model_(model), requests_(requests), options_(options) {}

    // Throughput, simulated once; nothing if B isn't feasible or there were evaluations enough.
    std::optional<double> evaluate(const Thresholds& b) {
        for (const std::int64_t threshold : b) {
            if (threshold < 1) return std::nullopt;
        }
        if (!deadlock_free(b, requests_)) return std::nullopt;
        const auto [at, added] = known_.try_emplace(b, 0.0);
        if (added) {
            if (found_.throughputs.size() >= static_cast<std::size_t>(options_.max_evaluations)) {
                known_.erase(at);
                return std::nullopt;
            }
            const Simulated run = simulate(model_, requests_, b, options_.simulation);
            at->second = run.throughput;
            found_.candidates.insert(found_.candidates.end(), b.begin(), b.end());
            found_.throughputs.push_back(run.throughput);
            half_widths_.push_back(run.half_width);
        }
        return at->second;
    }

    void climb(Thresholds b) {
        const std::optional<double> first = evaluate(b);
        if (!first) return;
        double height = *first;
        for (bool better = true; better;) {
            better = false;
            for (std::size_t i = 0; i < b.size(); ++i) {
                better |= best_move(b, height, i, b.size());
            }
            for (std::size_t i = 0; i < b.size(); ++i) {
                for (std::size_t j = i + 1; j < b.size(); ++j) better |= best_move(b, height, i, j);
            }
        }
    }

    SearchedThresholds result() {
        const std::size_t models = model_.models();
        const std::size_t best = best_of(models, found_.candidates, found_.throughputs);
        const auto first = found_.candidates.begin() + static_cast<std::ptrdiff_t>(best * models);
        found_.thresholds.assign(first, first + static_cast<std::ptrdiff_t>(models));
        found_.throughput = found_.throughputs[best];
        found_.half_width = half_widths_[best];
        return std::move(found_);
    }

private:
    // The best of b[i] +- 1, 2, 4, ..., with b[j] changed the other way if there is a j.
    bool best_move(Thresholds& b, double& height, std::size_t i, std::size_t j) {
        Thresholds best = b;
        for (std::int64_t by = 1; by < requests_; by *= 2) {
            for (const std::int64_t change : {by, -by}) {
                Thresholds next = b;
                next[i] += change;
                if (j < b.size()) next[j] -= change;
                const std::optional<double> there = evaluate(next);
                if (!there || *there <= height) continue;
                height = *there;
                best = next;
            }
        }
        if (best == b) return false;
        b = best;
        return true;
    }

    const RoutingModel& model_;
    std::int64_t requests_;
    const SearchOptions& options_;
    std::map<Thresholds, double> known_;
    SearchedThresholds found_;
    std::vector<double> half_widths_;
};

}  // namespace

SearchedThresholds search_thresholds(const RoutingModel& model, std::int64_t requests,
                                     const SearchOptions& options) {
    const std::size_t models = model.models();
    const Thresholds eager(models, 1);
    check_thresholds(models, requests, eager);
    if (options.max_evaluations < 1) {
        throw std::invalid_argument("max_evaluations: must be 1 or more, not " +
                                    std::to_string(options.max_evaluations));
    }
    if (!options.start.empty()) {
        try {
            check_thresholds(models, requests, options.start);
        } catch (const std::invalid_argument& e) {
            throw std::invalid_argument(std::string("start: ") + e.what());
        }
    }
    Search search(model, requests, options);
    const auto most = static_cast<std::size_t>(options.max_evaluations);
    if (count_feasible(models, requests, most + 1) <= most) {
        const Thresholds all = feasible_thresholds(models, requests, most);
        for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(models)) {
            search.evaluate({at, at + static_cast<std::ptrdiff_t>(models)});
        }
        return search.result();
    }
    if (!options.start.empty()) search.climb(options.start);
    search.climb(eager);
    for (std::size_t i = 0; i < models; ++i) {
        Thresholds favoured = eager;
        favoured[i] = std::max<std::int64_t>(1, requests / 2);
        search.climb(favoured);
    }
    return search.result();
}

}  // namespace trcore
