// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// That a batch's arguments are what assign.hpp says they are.
#include <cmath>
#include <stdexcept>
#include <string>

#include "trcore/assign.hpp"

namespace trcore {
namespace {

constexpr double kSumTolerance = 1e-6;

[[noreturn]] void refuse(const std::string& name, const std::string& rule) {
    throw std::invalid_argument(name + ": must " + rule);
}

template <class T>
void check_size(const char* name, std::span<const T> values, std::size_t size, const char* shape,
                bool optional = false) {
    if (values.size() == size || (optional && values.empty())) return;
    refuse(name, std::string("have the shape ") + shape + ", " + std::to_string(size) +
                     " in all, not " + std::to_string(values.size()));
}

void check_least(const char* name, std::span<const std::int32_t> values, std::int32_t least) {
    for (const std::int32_t value : values) {
        if (value < least) {
            refuse(name, "be " + std::to_string(least) + " or more, not " + std::to_string(value));
        }
    }
}

void check_ceilings(const char* name, std::span<const double> values) {
    for (const double value : values) {
        if (!(value >= 0)) refuse(name, "be 0 or more, not " + std::to_string(value));
    }
}

void check_weights(std::span<const double> weights, std::size_t requests) {
    if (weights.size() != 3 && weights.size() != 3 * requests) {
        refuse("weights", "be quality, cost and latency: [3], or [R, 3]");
    }
    for (std::size_t at = 0; at + 2 < weights.size(); at += 3) {
        double sum = 0;
        for (const double weight : weights.subspan(at, 3)) {
            if (!(weight >= 0)) refuse("weights", "be 0 or more, not " + std::to_string(weight));
            sum += weight;
        }
        if (!(std::abs(sum - 1) <= kSumTolerance)) {
            refuse("weights", "sum to 1, not " + std::to_string(sum));
        }
    }
}

}  // namespace

void AssignRules::check() const {
    if (prior_quality.empty()) refuse("prior_quality", "hold a number for each model");
    if (prior_length.size() != prior_quality.size()) {
        refuse("prior_length", "hold as many numbers as prior_quality");
    }
    for (const double quality : prior_quality) {
        // As float32: a request's range of qualities must be finite.
        if (!std::isfinite(static_cast<float>(quality))) refuse("prior_quality", "be finite");
    }
    for (const double length : prior_length) {
        if (!(length > 0 && std::isfinite(length))) {
            refuse("prior_length", "be above 0 and finite, not " + std::to_string(length));
        }
    }
}

void AssignBatch::check(std::size_t model_count, std::size_t instance_count) const {
    const std::size_t r = requests();
    check_weights(weights, r);
    check_size("quality", quality, r * model_count, "[R, M]");
    check_size("length", length, r * model_count, "[R, M]");
    check_filters(model_count, instance_count);
}

void AssignBatch::check_filters(std::size_t model_count, std::size_t instance_count) const {
    const std::size_t r = requests();
    check_size("max_tokens", max_tokens, r, "[R]");
    check_size("needs", needs, r, "[R]", true);
    check_size("models", models, r * model_count, "[R, M]", true);
    check_size("instances", instances, r * instance_count, "[R, I]", true);
    check_size("max_usd", max_usd, r, "[R]", true);
    check_size("max_seconds", max_seconds, r, "[R]", true);
    check_least("prompt_tokens", prompt_tokens, 0);
    check_least("max_tokens", max_tokens, 1);
    check_ceilings("max_usd", max_usd);
    check_ceilings("max_seconds", max_seconds);
}

void AssignOutputs::check(std::size_t requests, std::size_t instance_count) const {
    check_size("chosen", std::span<const std::int32_t>(chosen), requests, "[R]");
    check_size("tokens", std::span<const std::int32_t>(tokens), requests, "[R]");
    check_size("terms", std::span<const double>(terms), requests * kTerms, "[R, 6]", true);
    const std::size_t pairs = requests * instance_count;
    check_size("scores", std::span<const double>(scores), pairs, "[R, I]", true);
    check_size("usd", std::span<const double>(usd), pairs, "[R, I]", true);
    check_size("seconds", std::span<const double>(seconds), pairs, "[R, I]", true);
}

void AssignPrices::check(std::size_t requests, std::size_t instance_count) const {
    check_size("usd", usd, requests * instance_count, "[R, I]", true);
    check_size("seconds", seconds, requests * instance_count, "[R, I]", true);
}

}  // namespace trcore
