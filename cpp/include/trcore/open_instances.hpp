// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// OpenInstances: the open rows of an InstanceView as one batch sees them. What doesn't change from
// request to request is worked out once; what an assignment changes is changed here, so that the
// next request of the batch sees it.
//
// Rows lie close together and are padded to a multiple of kLanes with rows that nothing fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trcore/instance_view.hpp"

namespace trcore {

struct OpenInstances {
    static constexpr std::size_t kLanes = 4;
    static constexpr double kLeastTpot = 1e-3;  // seconds
    static constexpr double kMostTpot = 1e3;

    // Throws std::invalid_argument, which begins with the column's name, for an open row that
    // holds what it must not. No allocation if an earlier batch was as large.
    void copy(const InstanceView& view, std::size_t models);

    // One request more waits at open row `at`.
    void give(std::size_t at, double prompt, double tokens) noexcept;

    std::size_t count = 0;        // open rows
    std::size_t padded = 0;
    std::size_t tpot_priors = 0;  // rows whose TPOT wasn't finite
    std::int64_t sequence = 0;    // the view's latest assignment

    std::vector<std::uint32_t> row;    // in the view, ascending
    std::vector<std::uint32_t> model;
    std::vector<std::uint32_t> capabilities;
    std::vector<double> window;        // tokens; -1 in the padding
    std::vector<double> input_usd;     // per token
    std::vector<double> output_usd;
    std::vector<double> tpot_s;        // held between the two limits
    std::vector<double> prefill_s;     // per token
    std::vector<double> pending_prefill;
    std::vector<double> pending_decode;
    std::vector<double> running;       // at least 1
    std::vector<double> backlog;       // d / b, or 0 with a free slot and nothing waiting
    std::vector<std::int64_t> in_flight;
    std::vector<std::int64_t> last;

private:
    void resize(std::size_t rows);
};

}  // namespace trcore
