// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Column by column, without branches: for a batch of one this is half of the work.
#include "trcore/snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "fill_column.hpp"
#include "trcore/why_not.hpp"

namespace trcore {
namespace {

constexpr double kMostPrice = 1e9;      // USD per 1M tokens
constexpr double kUsd = 1e-6;           // of a price, for one token
constexpr double kMostTokens = 0x1p53;  // whole numbers end here
constexpr double kMost = std::numeric_limits<double>::max();

[[noreturn]] void refuse(const char* column, const char* rule, std::size_t row, double value) {
    throw std::invalid_argument(std::string(column) + ": must be " + rule +
                                " in an open row, not " + std::to_string(value) + " (row " +
                                std::to_string(row) + ")");
}

bool is_finite(double value) { return std::abs(value) <= kMost; }
bool price_is_right(double value) { return (value >= 0) & (value <= kMostPrice); }
bool prior_is_right(double value) { return (value > 0) & (value <= kMost); }
bool rate_is_right(double value) { return (value >= 0) & (value <= kMost); }

// Says what is wrong with an open row, if anything is.
void check_row(const InstanceView::Columns& from, std::size_t i, std::size_t models) {
    if (from.model[i] < 0 || static_cast<std::size_t>(from.model[i]) >= models) {
        refuse("model", "a column of the predictions", i, from.model[i]);
    }
    const double input = from.input_price[i], output = from.output_price[i];
    if (!price_is_right(input)) refuse("input_price", "0 to 1e9", i, input);
    if (!price_is_right(output)) refuse("output_price", "0 to 1e9", i, output);
    const double prior = from.prior_tpot_s[i], rate = from.prefill_rate[i];
    if (!prior_is_right(prior)) refuse("prior_tpot_s", "above 0 and finite", i, prior);
    if (!rate_is_right(rate)) refuse("prefill_rate", "0 or more and finite", i, rate);
}

// An account that is out of step for a moment, below 0 or no number, counts as nothing.
double account(double value) {
    const double most = value < kMostTokens ? value : kMostTokens;
    return value > 0 ? most : 0.0;
}

// As fill_column, from whole columns.
template <class F, class... From>
void fill(std::vector<double>& to, F f, const std::vector<From>&... from) {
    fill_column(to.data(), std::min({from.size()...}), f, from.data()...);
}

}  // namespace

void Snapshot::resize(std::size_t rows) {
    count = rows;
    padded = (rows + kBlock - 1) / kBlock * kBlock;
    for (auto* column : {&model, &capabilities}) column->resize(padded);
    for (auto* column : {&window, &input_usd, &output_usd, &tpot_s, &prefill_s, &pending_prefill,
                         &pending_decode, &running, &backlog, &in_flight}) {
        column->resize(padded);
    }
    last.resize(padded);
    for (std::size_t i = rows; i < padded; ++i) {
        model[i] = 0;
        window[i] = -1;
        for (auto* column : {&input_usd, &output_usd, &tpot_s, &prefill_s, &pending_prefill,
                             &backlog}) {
            (*column)[i] = 0;
        }
    }
}

void Snapshot::take(const InstanceView& view, std::size_t models) {
    resize(view.size());
    take_models(view.columns, models);
    take_rates(view.columns);
    take_accounts(view.columns);
}

void Snapshot::take_models(const InstanceView::Columns& from, std::size_t models) {
    const auto most = static_cast<double>(models);
    fill(window, [](std::uint8_t healthy, std::uint8_t draining, std::int32_t tokens) {
        const double fits = std::max(tokens, 0);
        return is_open(healthy, draining) ? fits : -1.0;
    }, from.healthy, from.draining, from.context_window);
    // Wrong ones are counted and only then looked for. `backlog` is free until take_accounts().
    fill(backlog, [](double input, double output, double prior, double rate) {
        return price_is_right(input) & price_is_right(output) & prior_is_right(prior) &
               rate_is_right(rate) ? 0.0 : 1.0;
    }, from.input_price, from.output_price, from.prior_tpot_s, from.prefill_rate);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double of = from.model[i];
        wrong += (window[i] >= 0) & ((backlog[i] != 0) | (of < 0) | (of >= most)) ? 1 : 0;
    }
    for (std::size_t i = 0; wrong != 0 && i < count; ++i) {
        if (window[i] >= 0) check_row(from, i, models);
    }
    for (std::size_t i = 0; i < count; ++i) {
        const auto of = static_cast<std::uint32_t>(from.model[i]);
        model[i] = of < models ? of : 0;  // a closed row's may be anything
    }
    std::copy(from.capabilities.begin(), from.capabilities.end(), capabilities.begin());
}

void Snapshot::take_rates(const InstanceView::Columns& from) noexcept {
    const auto usd = [](double price, double fits) {
        const double of_token = price * kUsd;
        return fits >= 0 ? of_token : 0.0;
    };
    fill(input_usd, usd, from.input_price, window);
    fill(output_usd, usd, from.output_price, window);
    fill(tpot_s, [](double predicted, double prior) {
        const double tpot = is_finite(predicted) ? predicted : prior;
        const double least = tpot > kLeastTpot ? tpot : kLeastTpot;
        return least < kMostTpot ? least : kMostTpot;
    }, from.tpot_s, from.prior_tpot_s);
    fill(prefill_s, [](double rate, double fits) {
        const double seconds = 1.0 / rate;
        return (fits >= 0) & (rate > 0) ? seconds : 0.0;
    }, from.prefill_rate, window);
    std::int64_t priors = 0;
    for (std::size_t i = 0; i < count; ++i) {
        priors += (window[i] >= 0) & !is_finite(from.tpot_s[i]) ? 1 : 0;
    }
    tpot_priors = static_cast<std::size_t>(priors);
}

void Snapshot::take_accounts(const InstanceView::Columns& from) noexcept {
    fill(running, [](std::int32_t busy) -> double { return std::max(busy, 1); }, from.running);
    fill(pending_decode, account, from.pending_decode);
    fill(pending_prefill, account, from.pending_prefill);
    fill(in_flight, [](std::int32_t busy, std::int32_t queued) {
        return static_cast<double>(std::max(busy, 0)) + static_cast<double>(std::max(queued, 0));
    }, from.running, from.waiting);
    fill(backlog, [](std::int32_t busy, std::int32_t slots, std::int32_t queued, double decode,
                     double b) {
        const double each = decode / b;
        return (std::max(busy, 0) >= slots) | (queued > 0) ? each : 0.0;
    }, from.running, from.slots, from.waiting, pending_decode, running);
    sequence = 0;
    for (const std::int64_t assigned : from.last_assigned) sequence = std::max(sequence, assigned);
    std::copy(from.last_assigned.begin(), from.last_assigned.end(), last.begin());
}

void Snapshot::give(std::size_t at, double prompt, double tokens) noexcept {
    pending_prefill[at] += prompt;
    pending_decode[at] += tokens;
    backlog[at] = pending_decode[at] / running[at];  // it waits, so the next one does too
    in_flight[at] += 1;
    last[at] = ++sequence;
}

}  // namespace trcore
