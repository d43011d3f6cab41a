// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/open_instances.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace trcore {
namespace {

constexpr double kMostPrice = 1e9;           // USD per 1M tokens
constexpr double kMostTokens = 0x1p53;       // whole numbers end here

[[noreturn]] void refuse(const char* column, const char* rule, std::size_t row, double value) {
    throw std::invalid_argument(std::string(column) + ": must be " + rule + " in an open row, not " +
                                std::to_string(value) + " (row " + std::to_string(row) + ")");
}

double price(const char* column, std::size_t row, double value) {
    if (!(value >= 0 && value <= kMostPrice)) refuse(column, "0 to 1e9", row, value);
    return value / 1e6;
}

// An account that is out of step for a moment, below 0 or no number, counts as nothing.
double account(double value) { return value > 0 ? std::min(value, kMostTokens) : 0.0; }
std::int64_t account(std::int32_t value) { return std::max(value, 0); }

}  // namespace

void OpenInstances::resize(std::size_t rows) {
    for (auto* column : {&row, &model, &capabilities}) column->resize(rows);
    for (auto* column : {&window, &input_usd, &output_usd, &tpot_s, &prefill_s, &pending_prefill,
                         &pending_decode, &running, &backlog}) {
        column->resize(rows);
    }
    for (auto* column : {&in_flight, &last}) column->resize(rows);
}

void OpenInstances::copy(const InstanceView& view, std::size_t models) {
    const InstanceView::Columns& from = view.columns;
    resize((view.size() + kLanes - 1) / kLanes * kLanes);
    count = tpot_priors = 0;
    sequence = 0;
    for (std::size_t i = 0; i < view.size(); ++i) {
        sequence = std::max(sequence, from.last_assigned[i]);
        if (from.healthy[i] == 0 || from.draining[i] != 0) continue;
        const std::size_t at = count++;
        if (from.model[i] < 0 || static_cast<std::size_t>(from.model[i]) >= models) {
            refuse("model", "a column of the predictions", i, from.model[i]);
        }
        const double prior = from.prior_tpot_s[i];
        if (!(prior > 0 && std::isfinite(prior))) {
            refuse("prior_tpot_s", "above 0 and finite", i, prior);
        }
        const double rate = from.prefill_rate[i];
        if (!(rate >= 0 && std::isfinite(rate))) {
            refuse("prefill_rate", "0 or more and finite", i, rate);
        }
        const bool known = std::isfinite(from.tpot_s[i]);
        tpot_priors += known ? 0 : 1;
        row[at] = static_cast<std::uint32_t>(i);
        model[at] = static_cast<std::uint32_t>(from.model[i]);
        capabilities[at] = from.capabilities[i];
        window[at] = from.context_window[i];
        input_usd[at] = price("input_price", i, from.input_price[i]);
        output_usd[at] = price("output_price", i, from.output_price[i]);
        tpot_s[at] = std::clamp(known ? from.tpot_s[i] : prior, kLeastTpot, kMostTpot);
        prefill_s[at] = rate > 0 ? 1.0 / rate : 0.0;
        pending_prefill[at] = account(from.pending_prefill[i]);
        pending_decode[at] = account(from.pending_decode[i]);
        const std::int64_t busy = account(from.running[i]);
        const std::int64_t queued = account(from.waiting[i]);
        running[at] = static_cast<double>(std::max<std::int64_t>(busy, 1));
        const bool starts_at_once = busy < from.slots[i] && queued == 0;
        backlog[at] = starts_at_once ? 0.0 : pending_decode[at] / running[at];
        in_flight[at] = busy + queued;
        last[at] = from.last_assigned[i];
    }
    padded = (count + kLanes - 1) / kLanes * kLanes;
    for (std::size_t at = count; at < padded; ++at) {
        model[at] = 0;
        window[at] = -1;
        for (auto* column : {&input_usd, &output_usd, &tpot_s, &prefill_s, &pending_prefill,
                             &backlog}) {
            (*column)[at] = 0;
        }
    }
}

void OpenInstances::give(std::size_t at, double prompt, double tokens) noexcept {
    pending_prefill[at] += prompt;
    pending_decode[at] += tokens;
    backlog[at] = pending_decode[at] / running[at];  // it waits, so the next one does too
    ++in_flight[at];
    last[at] = ++sequence;
}

}  // namespace trcore
