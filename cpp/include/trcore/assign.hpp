// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Which instance takes which request of a batch: greedy, longest processing time first
// (RouteBalance, arXiv 2606.17949). For each request in turn, over its candidates i of model m:
//
//   L = length[m], held between 1 and the request's max_tokens
//   C = prompt * input_usd + L * output_usd
//   T = tpot * (backlog + L) + (pending_prefill + prompt) * prefill_s
//   S = w_qual * Q + w_cost * (1 - C / max C) + w_lat * (1 - T / max T)
//
// where a term is 1 if all candidates are equal in it. The best S wins; of equal ones that with
// fewer requests in flight, then the one not given any for longest, then the first. All in doubles,
// in this order of operations and without fused multiply-add: packages/trcore/tests/
// reference_assign.py computes the same bits.
//
// The three steps of a batch are apart because only the first and last touch the view:
//   begin   checks all arguments, takes a snapshot of the view    under the view's lock
//   run     scores and chooses; the work, O(requests * instances)
//   commit  adds what was assigned to the view                    under the view's lock
// Two threads with an Assigner each may work on one view; their batches just don't see each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "trcore/instance_view.hpp"
#include "trcore/request_scores.hpp"
#include "trcore/snapshot.hpp"
#include "trcore/why_not.hpp"

namespace trcore {

enum class QualityNorm : std::uint8_t { none, minmax };
enum class Order : std::uint8_t { lpt, arrival };
enum class OnNoCandidate : std::uint8_t { fail, cheapest, fastest };

struct AssignRules {
    std::vector<double> prior_quality;  // [M], instead of predictions that aren't finite
    std::vector<double> prior_length;
    QualityNorm quality_norm = QualityNorm::none;
    Order order = Order::lpt;
    OnNoCandidate on_no_candidate = OnNoCandidate::fail;

    // Throws std::invalid_argument, which begins with the field's name.
    void check() const;
    [[nodiscard]] std::size_t models() const noexcept { return prior_quality.size(); }
};

// R requests; not copied. Empty: not given. Shapes are row by row.
struct AssignBatch {
    std::span<const double> weights;              // [3] or [R, 3]
    std::span<const std::int32_t> prompt_tokens;  // [R]
    std::span<const std::int32_t> max_tokens;     // [R]
    std::span<const float> quality;               // [R, M]
    std::span<const float> length;                // [R, M]
    std::span<const std::uint32_t> needs = {};    // [R] capabilities
    std::span<const std::uint8_t> models = {};    // [R, M], 0: not allowed
    std::span<const std::uint8_t> instances = {};  // [R, I], 0: not allowed
    std::span<const double> max_usd = {};         // [R]
    std::span<const double> max_seconds = {};     // [R]

    // Throws std::invalid_argument, which begins with the field's name.
    void check(std::size_t model_count, std::size_t instance_count) const;
    // The same, without weights, quality and length.
    void check_filters(std::size_t model_count, std::size_t instance_count) const;
    [[nodiscard]] std::size_t requests() const noexcept { return prompt_tokens.size(); }
};

struct AssignOutputs {
    static constexpr std::size_t kTerms = 6;  // quality, cost, latency, score, USD, seconds

    std::span<std::int32_t> chosen;  // [R], -1: none
    std::span<std::int32_t> tokens;  // [R], added to pending_decode
    std::span<double> terms = {};    // [R, kTerms], NaN: none
    std::span<double> scores = {};   // [R, I], -inf: no candidate
    std::span<double> usd = {};      // [R, I], NaN: closed, or no room
    std::span<double> seconds = {};  // likewise

    // As above.
    void check(std::size_t requests, std::size_t instance_count) const;
};

struct Assigned {
    std::size_t unassigned = 0;      // requests
    std::size_t relaxed = 0;         // requests placed above their ceilings
    std::size_t quality_priors = 0;  // predictions replaced
    std::size_t length_priors = 0;
    std::size_t tpot_priors = 0;
};

class Assigner {
public:
    // Throws std::invalid_argument, which begins with the argument's or column's name. `rules` and
    // what `batch` and `outputs` point to must live until run() has returned.
    void begin(const InstanceView& view, const AssignRules& rules, const AssignBatch& batch,
               const AssignOutputs& outputs);
    // As begin() found all in order, nothing can fail. No allocation.
    Assigned run() noexcept;
    void commit(InstanceView& view) const;

private:
    static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);
    struct Given { std::size_t at; double prompt, tokens; };

    void mend() noexcept;     // lengths_ and qualities_, counting priors
    void arrange() noexcept;  // order_
    [[nodiscard]] AssignRequest request(std::size_t r) const noexcept;
    [[nodiscard]] std::size_t choose(AssignRequest request) noexcept;  // instance, or kNobody
    void report(std::size_t r, std::size_t at) const noexcept;
    void report_prices(std::size_t r, double total, std::span<double> to,
                       const double* from) const noexcept;

    const AssignRules* rules_ = nullptr;
    AssignBatch batch_;
    AssignOutputs outputs_;
    Snapshot view_;
    RequestScores scores_;
    Assigned counted_;
    std::vector<double> lengths_;    // [R, M], mended and held in bounds
    std::vector<double> qualities_;  // [R, M], mended
    std::vector<std::pair<double, std::size_t>> order_;  // (-length, request), [R]
    std::vector<Given> given_;       // in the order of assignment
};

}  // namespace trcore
