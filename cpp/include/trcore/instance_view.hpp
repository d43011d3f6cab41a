// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// InstanceView: what a balancer knows of I instances, one array for each column, so that scoring
// reads contiguous memory and telemetry writes a whole column at once.
//
// Plain memory, fixed in size and place. Nothing here is atomic: whoever writes while another
// thread copies the view (Assigner::begin) or adds to it (Assigner::commit, add) must hold the
// same lock. Python's is the GIL. Assigner::run, where the time goes, touches no view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trcore {

class InstanceView {
public:
    static constexpr std::size_t kMaxInstances = 1U << 16U;

    // Columns, [I]. A row is closed, and nothing in it matters, until it is healthy.
    struct Columns {
        std::vector<std::int32_t> model;           // column of the predictions
        std::vector<double> input_price;           // USD per 1M prompt tokens
        std::vector<double> output_price;          // USD per 1M generated tokens
        std::vector<double> tpot_s;                // seconds per output token; not finite: unknown
        std::vector<double> prior_tpot_s;          // what its tier takes when that isn't known
        std::vector<double> prefill_rate;          // prompt tokens per second; 0: takes no time
        std::vector<std::int32_t> slots;           // requests that run at once
        std::vector<std::int32_t> running;         // b_i
        std::vector<std::int32_t> waiting;         // sent, not running yet
        std::vector<double> pending_decode;        // d_i, whole tokens
        std::vector<double> pending_prefill;       // whole tokens
        std::vector<std::int64_t> last_assigned;   // sequence number, 0: never
        std::vector<std::uint8_t> healthy;
        std::vector<std::uint8_t> draining;
        std::vector<std::int32_t> context_window;  // tokens of prompt and answer together
        std::vector<std::uint32_t> capabilities;   // bits, the caller's meaning
    };

    // What a request adds to its instance's accounts, and takes away again. Whole tokens in
    // doubles: sums below 2^53 are exact, so what was added leaves nothing behind.
    struct Load {
        std::int32_t running = 0, waiting = 0;
        double pending_decode = 0, pending_prefill = 0;
    };

    // Throws std::invalid_argument unless 1 <= instances <= kMaxInstances.
    explicit InstanceView(std::size_t instances);
    InstanceView(const InstanceView&) = delete;  // others hold pointers to its memory
    InstanceView& operator=(const InstanceView&) = delete;

    // Throws std::out_of_range if there is no such instance.
    void add(std::size_t instance, const Load& load);

    [[nodiscard]] std::size_t size() const noexcept { return columns.model.size(); }

    Columns columns;  // elements are anyone's to write, sizes are fixed
};

}  // namespace trcore
