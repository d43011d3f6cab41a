// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Snapshot: an InstanceView as one batch sees it, row for row. What doesn't change from request to
// request is worked out once; what an assignment changes is changed here, so that the next request
// of the batch sees it.
//
// Closed rows, and those that pad it to a multiple of kBlock, have a window that nothing fits, and
// numbers in all other columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trcore/instance_view.hpp"

namespace trcore {

struct Snapshot {
    static constexpr std::size_t kBlock = 16;
    static constexpr double kLeastTpot = 1e-3;  // seconds
    static constexpr double kMostTpot = 1e3;

    // Throws std::invalid_argument, which begins with the column's name, for an open row that
    // holds what it must not. No allocation if an earlier view was as large.
    void take(const InstanceView& view, std::size_t models);

    // One request more waits at instance `at`.
    void give(std::size_t at, double prompt, double tokens) noexcept;

    std::size_t count = 0;        // instances
    std::size_t padded = 0;       // rows
    std::size_t tpot_priors = 0;  // open rows whose TPOT wasn't finite
    std::int64_t sequence = 0;    // the latest assignment

    std::vector<std::uint32_t> model;
    std::vector<std::uint32_t> capabilities;
    std::vector<double> window;      // tokens, -1 where nothing fits
    std::vector<double> input_usd;   // per token
    std::vector<double> output_usd;
    std::vector<double> tpot_s;      // held between the two limits
    std::vector<double> prefill_s;   // per token
    std::vector<double> pending_prefill;
    std::vector<double> pending_decode;
    std::vector<double> running;     // at least 1
    std::vector<double> backlog;     // d / b, or 0 with a free slot and nothing waiting
    std::vector<double> in_flight;   // running + waiting
    std::vector<std::int64_t> last;  // assignment

private:
    void resize(std::size_t rows);
    void take_models(const InstanceView::Columns& from, std::size_t models);
    void take_rates(const InstanceView::Columns& from) noexcept;
    void take_accounts(const InstanceView::Columns& from) noexcept;
};

}  // namespace trcore
