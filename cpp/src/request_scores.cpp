// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/request_scores.hpp"

#include <algorithm>
#include <limits>

#include "score_kernels.hpp"

namespace trcore {
namespace {

using kernels::kInfinity;
using kernels::Range;

double divisor(const Range& range) { return range.high > range.low ? range.high : kInfinity; }

}  // namespace

void RequestScores::resize(std::size_t rows, std::size_t models) {
    for (auto* column : {&usd_, &seconds_, &length_, &quality_, &closed_, &score_}) {
        column->resize(rows);
    }
    barred_.assign(rows, 0.0);
    by_model_.resize(models);
}

void RequestScores::bar(const OpenInstances& open, const AssignRequest& request) noexcept {
    for (std::size_t at = 0; at < open.count; ++at) {
        const bool allowed =
            (open.capabilities[at] & request.needs) == request.needs &&
            (request.models == nullptr || request.models[open.model[at]] != 0) &&
            (request.instances == nullptr || request.instances[open.row[at]] != 0);
        barred_[at] = allowed ? 0.0 : -kInfinity;
    }
}

bool RequestScores::price(const OpenInstances& open, const AssignRequest& request) noexcept {
    const bool bars = request.needs != 0 || request.models != nullptr || request.instances != nullptr;
    if (bars) bar(open, request);
    const std::size_t n = open.padded;
    kernels::gather(n, request.length, open.model.data(), length_.data());
    kernels::price(n, {request.prompt, request.total, request.max_usd, request.max_seconds},
                   length_.data(), open.input_usd.data(), open.output_usd.data(),
                   open.tpot_s.data(), open.backlog.data(), open.pending_prefill.data(),
                   open.prefill_s.data(), open.window.data(), barred_.data(), usd_.data(),
                   seconds_.data(), closed_.data());
    const Range usd = kernels::range(n, usd_.data(), closed_.data());
    const Range seconds = kernels::range(n, seconds_.data(), closed_.data());
    least_usd_ = usd.low;
    least_seconds_ = seconds.low;
    most_usd_ = divisor(usd);
    most_seconds_ = divisor(seconds);
    if (bars) std::fill(barred_.begin(), barred_.end(), 0.0);
    return usd.low < kInfinity;
}

void RequestScores::score(const OpenInstances& open, const AssignRequest& request,
                          bool minmax) noexcept {
    const std::size_t n = open.padded;
    const std::uint32_t* model = open.model.data();
    kernels::gather(n, request.quality, model, quality_.data());
    if (minmax) {
        const auto [low, high] = kernels::range(n, quality_.data(), closed_.data());
        for (std::size_t m = 0; m < by_model_.size(); ++m) {
            by_model_[m] = high > low ? (request.quality[m] - low) / (high - low) : 1.0;
        }
        kernels::gather(n, by_model_.data(), model, quality_.data());
    }
    best_ = kernels::score(n, request.weights, most_usd_, most_seconds_, quality_.data(),
                           usd_.data(), seconds_.data(), closed_.data(), score_.data());
}

std::size_t RequestScores::first(const OpenInstances& open, const std::vector<double>& keys,
                                 double key) const noexcept {
    std::size_t found = open.count;
    for (std::size_t at = 0; at < open.count; ++at) {
        if (keys[at] != key || closed_[at] != 0) continue;
        if (found == open.count || open.in_flight[at] < open.in_flight[found] ||
            (open.in_flight[at] == open.in_flight[found] && open.last[at] < open.last[found])) {
            found = at;
        }
    }
    return found;
}

std::size_t RequestScores::best(const OpenInstances& open) const noexcept {
    return first(open, score_, best_);
}

std::size_t RequestScores::cheapest(const OpenInstances& open) const noexcept {
    return first(open, usd_, least_usd_);
}

std::size_t RequestScores::fastest(const OpenInstances& open) const noexcept {
    return first(open, seconds_, least_seconds_);
}

RequestScores::Terms RequestScores::terms(std::size_t at) const noexcept {
    return {quality_[at], 1.0 - usd_[at] / most_usd_, 1.0 - seconds_[at] / most_seconds_,
            score_[at], usd_[at], seconds_[at]};
}

}  // namespace trcore
