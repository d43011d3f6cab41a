// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/assign.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trcore {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class T>
T at_or(std::span<const T> values, std::size_t index, T otherwise) {
    return values.empty() ? otherwise : values[index];
}

const std::uint8_t* row(std::span<const std::uint8_t> mask, std::size_t index, std::size_t width) {
    return mask.empty() ? nullptr : mask.data() + index * width;
}

}  // namespace

void Assigner::begin(const InstanceView& view, const AssignRules& rules, const AssignBatch& batch,
                     const AssignOutputs& outputs) {
    batch.check(rules.models(), view.size());
    outputs.check(batch.requests(), view.size());
    view_.take(view, rules.models());
    rules_ = &rules;
    batch_ = batch;
    outputs_ = outputs;
    counted_ = {};
    counted_.tpot_priors = view_.tpot_priors;
    scores_.resize(view_.padded);
    lengths_.resize(batch.length.size());
    qualities_.resize(batch.quality.size());
    order_.resize(batch.requests());
    given_.clear();
    given_.reserve(batch.requests());
}

void Assigner::mend() noexcept {
    const std::size_t models = rules_->models();
    for (std::size_t r = 0; r < batch_.requests(); ++r) {
        const double most = batch_.max_tokens[r];
        for (std::size_t m = 0; m < models; ++m) {
            const double quality = batch_.quality[r * models + m];
            const double length = batch_.length[r * models + m];
            const bool known = std::isfinite(quality), bounded = std::isfinite(length);
            counted_.quality_priors += known ? 0 : 1;
            counted_.length_priors += bounded ? 0 : 1;
            qualities_[r * models + m] = known ? quality : rules_->prior_quality[m];
            const double tokens = bounded ? length : rules_->prior_length[m];
            lengths_[r * models + m] = std::min(std::max(tokens, 1.0), most);
        }
    }
}

void Assigner::arrange() noexcept {
    const std::size_t models = rules_->models();
    for (std::size_t r = 0; r < order_.size(); ++r) {
        double length = 0;
        for (std::size_t m = 0; m < models; ++m) length += lengths_[r * models + m];
        order_[r] = {-length, r};
    }
    // Longest first; equal ones as they came. In place, unlike std::stable_sort.
    if (rules_->order == Order::lpt) std::sort(order_.begin(), order_.end());
}

AssignRequest Assigner::request(std::size_t r) const noexcept {
    const std::size_t models = rules_->models();
    const double prompt = batch_.prompt_tokens[r];
    return {
        .prompt = prompt,
        .total = prompt + batch_.max_tokens[r],
        .length = lengths_.data() + r * models,
        .quality = qualities_.data() + r * models,
        .weights = batch_.weights.data() + (batch_.weights.size() == 3 ? 0 : 3 * r),
        .max_usd = at_or(batch_.max_usd, r, kInfinity),
        .max_seconds = at_or(batch_.max_seconds, r, kInfinity),
        .needs = at_or(batch_.needs, r, 0U),
        .models = row(batch_.models, r, models),
        .instances = row(batch_.instances, r, view_.count),
    };
}

std::size_t Assigner::choose(AssignRequest request) noexcept {
    const bool minmax = rules_->quality_norm == QualityNorm::minmax;
    if (scores_.price(view_, request)) {
        scores_.score(view_, request, minmax);
        return scores_.best(view_);
    }
    if (rules_->on_no_candidate == OnNoCandidate::fail) return kNobody;
    request.max_usd = request.max_seconds = kInfinity;
    if (!scores_.price(view_, request)) return kNobody;
    scores_.score(view_, request, minmax);
    ++counted_.relaxed;
    return rules_->on_no_candidate == OnNoCandidate::cheapest ? scores_.cheapest(view_)
                                                             : scores_.fastest(view_);
}

void Assigner::report(std::size_t r, std::size_t at) const noexcept {
    if (!outputs_.terms.empty()) {
        double* to = outputs_.terms.data() + r * AssignOutputs::kTerms;
        std::fill_n(to, AssignOutputs::kTerms, kNone);
        if (at != kNobody) {
            const auto [quality, cost, latency, score, usd, seconds] = scores_.terms(at);
            for (const double term : {quality, cost, latency, score, usd, seconds}) *to++ = term;
        }
    }
    if (!outputs_.scores.empty()) {
        double* to = outputs_.scores.data() + r * view_.count;
        std::fill_n(to, view_.count, -kInfinity);
        if (at != kNobody) std::copy_n(scores_.scores(), view_.count, to);
    }
}

void Assigner::report_prices(std::size_t r, double total, std::span<double> to,
                             const double* from) const noexcept {
    if (to.empty()) return;
    for (std::size_t i = 0; i < view_.count; ++i) {
        to[r * view_.count + i] = has_room(view_.window[i], total) ? from[i] : kNone;
    }
}

Assigned Assigner::run() noexcept {
    mend();
    arrange();
    for (const auto& [length, r] : order_) {
        const AssignRequest asked = request(r);
        const std::size_t at = choose(asked);
        report(r, at);
        report_prices(r, asked.total, outputs_.usd, scores_.usd());
        report_prices(r, asked.total, outputs_.seconds, scores_.seconds());
        outputs_.chosen[r] = -1;
        outputs_.tokens[r] = 0;
        if (at == kNobody) {
            ++counted_.unassigned;
            continue;
        }
        // To whole tokens, half to even, as the environment's rounding is never changed.
        const double tokens = std::nearbyint(asked.length[view_.model[at]]);
        outputs_.chosen[r] = static_cast<std::int32_t>(at);
        outputs_.tokens[r] = static_cast<std::int32_t>(tokens);
        view_.give(at, asked.prompt, tokens);
        given_.push_back({at, asked.prompt, tokens});
    }
    return counted_;
}

void Assigner::commit(InstanceView& view) const {
    std::int64_t sequence = view_.sequence - static_cast<std::int64_t>(given_.size());
    for (const auto& [at, prompt, tokens] : given_) {
        view.add(at, {.waiting = 1, .pending_decode = tokens, .pending_prefill = prompt});
        view.columns.last_assigned[at] = ++sequence;
    }
}

}  // namespace trcore
