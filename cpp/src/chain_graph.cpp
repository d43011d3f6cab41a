// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "chain_graph.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "trcore/batching.hpp"
#include "trcore/dtmc.hpp"
#include "trcore/thresholds.hpp"

namespace trcore {
namespace {

constexpr std::size_t kFirstTable = 1024;
constexpr std::size_t kTransitionsPerState = 64;  // more need more memory than max_states lets expect
constexpr double kMostQuanta = 4294967295.0;

std::uint64_t hash_of(const ChainState& s) noexcept {
    std::uint64_t h = (s.counts + 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U;
    h = (h ^ (h >> 32U) ^ s.times) * 0x94D049BB133111EBU;
    return h ^ (h >> 29U);
}

// log(n!) by addition: exact enough, and std::lgamma isn't safe between threads.
std::vector<double> log_factorials(std::uint64_t n) {
    std::vector<double> logs(n + 1, 0.0);
    for (std::uint64_t i = 2; i <= n; ++i) logs[i] = logs[i - 1] + std::log(static_cast<double>(i));
    return logs;
}

}  // namespace

ChainBuilder::ChainBuilder(const RoutingModel& model, std::int64_t requests, double quantum,
                           bool exclusive, std::size_t max_states)
    : model_(model), requests_(static_cast<std::uint64_t>(requests)), exclusive_(exclusive),
      max_states_(max_states), splits_(model.models() * (requests_ + 1)) {
    const std::size_t models = model.models();
    std::uint64_t longest = 1;
    quanta_.assign(models * (requests_ + 1), 1);
    for (std::size_t i = 0; i < models; ++i) {
        for (std::uint64_t b = 1; b <= requests_; ++b) {
            const double steps = std::round(model.seconds(i, b) / quantum);
            const double most = std::clamp(steps, 1.0, kMostQuanta);
            auto& quanta = quanta_[i * (requests_ + 1) + b];
            quanta = static_cast<std::uint64_t>(most);
            longest = std::max(longest, quanta);
        }
        double committed = 0;
        for (std::size_t j = 0; j < models; ++j) {
            committed += model.routing(0, i)[j] * model.tokens(i)[j];
        }
        committed_each_.push_back(committed);
    }
    count_bits_ = static_cast<unsigned>(std::bit_width(requests_));
    time_bits_ = static_cast<unsigned>(std::bit_width(longest));
    if (2 * models * count_bits_ > 64 || models * time_bits_ > 64) {
        throw StateSpaceTooLarge(
            "a state of " + std::to_string(models) + " models, " + std::to_string(requests_) +
            " requests and steps of up to " + std::to_string(longest) +
            " quanta does not fit in 128 bits, so the chain has more states than the limit, " +
            std::to_string(max_states) + ": use simulate");
    }
    count_mask_ = (1ULL << count_bits_) - 1;
    time_mask_ = (1ULL << time_bits_) - 1;
}

const ChainGraph& ChainBuilder::build(std::span<const std::int64_t> thresholds) {
    thresholds_.assign(thresholds.begin(), thresholds.end());
    graph_.states.clear();
    graph_.lasts.clear();
    graph_.committed.clear();
    graph_.first.assign(1, 0);
    graph_.to.clear();
    graph_.probability.clear();
    graph_.leave.clear();
    table_.assign(std::max(table_.size(), kFirstTable), 0);

    ChainState initial{requests_, 0};  // all wait at model 0, which may start: B_0 <= N
    start(initial, 0);
    index_of(initial);
    for (std::uint32_t at = 0; at < graph_.size(); ++at) expand(at);
    return graph_;
}

void ChainBuilder::start(ChainState& s, std::size_t model) const noexcept {
    const std::uint64_t k = waiting(s, model);
    const std::size_t shift = 2 * model * count_bits_;
    s.counts += ((k << count_bits_) - k) << shift;
    s.times |= quanta_[model * (requests_ + 1) + k] << (model * time_bits_);
}

void ChainBuilder::expand(std::uint32_t from) {
    const std::size_t models = model_.models();
    ChainState s = graph_.states[from];
    std::array<std::size_t, RoutingModel::kMaxModels> completed;
    std::array<std::size_t, RoutingModel::kMaxModels> idle;  // after the completion
    std::size_t completions = 0, idles = 0;

    std::uint64_t lasts = ~0ULL, one_quantum = 0;
    for (std::size_t i = 0; i < models; ++i) {
        const std::uint64_t r = left(s, i);
        if (r == 0) continue;
        lasts = std::min(lasts, r);
        one_quantum |= 1ULL << (i * time_bits_);
    }
    double committed = 0;
    const std::uint64_t times = s.times;
    s.times -= lasts * one_quantum;
    for (std::size_t i = 0; i < models; ++i) {
        if (left(s, i) != 0) continue;
        idle[idles++] = i;
        if ((times >> (i * time_bits_) & time_mask_) != 0) {
            completed[completions++] = i;
            committed += committed_each_[i] * static_cast<double>(running(s, i));
        }
    }
    graph_.lasts.push_back(static_cast<double>(lasts));
    graph_.committed.push_back(committed);
    if (exclusive_) {  // all are idle: the order of their turns
        std::rotate(idle.begin(), idle.begin() + static_cast<long>(completed[0]) + 1,
                    idle.begin() + static_cast<long>(idles));
    }

    const std::span<const Split> row = outcomes({completed.data(), completions}, s);
    for (std::size_t c = 0; c < completions; ++c) {
        s.counts &= ~(count_mask_ << ((2 * completed[c] + 1) * count_bits_));
    }
    double leave = 0;
    for (const Split& split : row) {
        ChainState next{s.counts + split.counts, s.times};
        for (std::size_t n = 0; n < idles; ++n) {
            const std::size_t i = idle[n];
            if (!may_start(static_cast<std::int64_t>(waiting(next, i)), thresholds_[i])) continue;
            start(next, i);
            if (exclusive_) break;
        }
        const std::uint32_t to = index_of(next);
        if (to == from) continue;
        leave += split.probability;
        graph_.to.push_back(to);
        graph_.probability.push_back(split.probability);
    }
    if (graph_.to.size() > max_states_ * kTransitionsPerState) too_large(graph_.size());
    graph_.leave.push_back(leave);
    graph_.first.push_back(static_cast<std::uint32_t>(graph_.to.size()));
}

// How the completed batches of `s` may split, all together. The states that follow are different
// for different splits: which models are idle is the same for all, and from what a model holds
// after the start one can tell what it held before.
std::span<const ChainBuilder::Split> ChainBuilder::outcomes(std::span<const std::size_t> completed,
                                                            const ChainState& s) {
    const auto& only = splits(completed[0], running(s, completed[0]));
    if (completed.size() == 1) return only;
    merged_.assign(only.begin(), only.end());
    for (const std::size_t i : completed.subspan(1)) {
        const auto& other = splits(i, running(s, i));
        product_.clear();
        for (const Split& a : merged_) {
            for (const Split& b : other) {
                product_.push_back({a.counts + b.counts, a.probability * b.probability});
            }
        }
        std::sort(product_.begin(), product_.end(),
                  [](const Split& a, const Split& b) { return a.counts < b.counts; });
        merged_.clear();
        for (const Split& split : product_) {
            if (!merged_.empty() && merged_.back().counts == split.counts) {
                merged_.back().probability += split.probability;
            } else {
                merged_.push_back(split);
            }
        }
    }
    return merged_;
}

const std::vector<ChainBuilder::Split>& ChainBuilder::splits(std::size_t model,
                                                             std::uint64_t batch) {
    auto& known = splits_[model * (requests_ + 1) + batch];
    if (!known.empty()) return known;
    const std::span<const double> row = model_.routing(0, model);
    std::vector<std::size_t> peers;
    for (std::size_t j = 0; j < row.size(); ++j) {
        if (row[j] > 0) peers.push_back(j);
    }
    const std::vector<double> logs = log_factorials(batch);
    // The multinomial, one peer after another: what is left of the batch goes to the last.
    struct Partial { std::uint64_t counts, left; double log; };
    std::vector<Partial> partial{{0, batch, logs[batch]}};
    for (std::size_t at = 0; at < peers.size(); ++at) {
        std::vector<Partial> next;
        const double log_p = std::log(row[peers[at]]);
        for (const Partial& p : partial) {
            for (std::uint64_t n = at + 1 == peers.size() ? p.left : 0; n <= p.left; ++n) {
                next.push_back({p.counts + (n << (2 * peers[at] * count_bits_)), p.left - n,
                                p.log + static_cast<double>(n) * log_p - logs[n]});
                // Each split leads to a state of its own.
                if (next.size() > max_states_) too_large(next.size());
            }
        }
        partial = std::move(next);
    }
    double sum = 0;
    for (const Partial& p : partial) {
        const double probability = std::exp(p.log);
        if (probability == 0) continue;  // too small for a double, so it must not connect states
        known.push_back({p.counts, probability});
        sum += probability;
    }
    for (Split& split : known) split.probability /= sum;
    return known;
}

std::uint32_t ChainBuilder::index_of(const ChainState& s) {
    if (graph_.size() * 2 >= table_.size()) grow_table();
    const std::uint64_t hash = hash_of(s);
    const std::size_t mask = table_.size() - 1;
    const std::uint64_t tag = hash & ~0xFFFFFFFFULL;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
        const std::uint64_t entry = table_[at];
        if (entry == 0) {
            if (graph_.size() >= max_states_) too_large(graph_.size() + 1);
            graph_.states.push_back(s);
            table_[at] = tag | graph_.size();
            return static_cast<std::uint32_t>(graph_.size() - 1);
        }
        const auto index = static_cast<std::uint32_t>(entry) - 1;
        if ((entry & ~0xFFFFFFFFULL) == tag && graph_.states[index] == s) return index;
    }
}

void ChainBuilder::grow_table() {
    table_.assign(table_.size() * 2, 0);
    const std::size_t mask = table_.size() - 1;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
        const std::uint64_t hash = hash_of(graph_.states[i]);
        std::size_t at = hash & mask;
        while (table_[at] != 0) at = (at + 1) & mask;
        table_[at] = (hash & ~0xFFFFFFFFULL) | (i + 1);
    }
}

void ChainBuilder::too_large(std::size_t reached) const {
    throw StateSpaceTooLarge("the chain of B = " + show_thresholds(thresholds_) + " has " +
                             std::to_string(reached) + " states and more, the limit is " +
                             std::to_string(max_states_) +
                             ": take a coarser quantum, or use simulate");
}

}  // namespace trcore
