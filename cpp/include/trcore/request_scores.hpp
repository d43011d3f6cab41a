// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// RequestScores: one request against all instances, as columns beside a snapshot's: what it would
// cost, how long it would take, whether it may go there, its score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trcore/snapshot.hpp"

namespace trcore {

// A request, checked, with its predictions by model.
struct AssignRequest {
    double prompt;               // tokens
    double total;                // with max_tokens
    const double* length;        // [M], held between 1 and max_tokens
    const double* quality;       // [M], finite
    const double* weights;       // quality, cost, latency
    double max_usd;
    double max_seconds;
    std::uint32_t needs;
    const std::uint8_t* models;     // [M], 0: not allowed; null: all are
    const std::uint8_t* instances;  // [I], likewise
};

struct ScoreRange { double low, high; };  // over the candidates

// By instance, [padded].
struct ScoreColumns {
    std::vector<double> length;   // of its model
    std::vector<double> quality;  // of its model, normalised
    std::vector<double> usd;
    std::vector<double> seconds;
    std::vector<double> barred;   // 0, or -inf where a mask or a capability is against it
    std::vector<double> closed;   // 0 for candidates, else -inf
    std::vector<double> score;
    ScoreRange usd_range{}, seconds_range{};
    double best = 0;              // score
};

class RequestScores {
public:
    // Room for the columns.
    void resize(std::size_t padded);

    // Cost, time and candidates. False if there is no candidate: then score() must not be called.
    bool price(const Snapshot& of, const AssignRequest& request) noexcept;

    // The terms and their sum, over the candidates that price() found.
    void score(const Snapshot& of, const AssignRequest& request, bool minmax) noexcept;

    // The instance with the best score, or the lowest cost, or the shortest time, among candidates.
    [[nodiscard]] std::size_t best(const Snapshot& of) const noexcept;
    [[nodiscard]] std::size_t cheapest(const Snapshot& of) const noexcept;
    [[nodiscard]] std::size_t fastest(const Snapshot& of) const noexcept;

    struct Terms { double quality, cost, latency, score, usd, seconds; };
    [[nodiscard]] Terms terms(std::size_t at) const noexcept;
    // [padded], -inf for those that are no candidates.
    [[nodiscard]] const double* scores() const noexcept { return columns_.score.data(); }
    // [padded], after price(); of no meaning in closed rows.
    [[nodiscard]] const double* usd() const noexcept { return columns_.usd.data(); }
    [[nodiscard]] const double* seconds() const noexcept { return columns_.seconds.data(); }

private:
    void bar(const Snapshot& of, const AssignRequest& request) noexcept;
    // Of the candidates with keys[at] == key, that which comes first by the rules for ties.
    [[nodiscard]] std::size_t first(const Snapshot& of, const std::vector<double>& keys,
                                    double key) const noexcept;

    ScoreColumns columns_;
};

}  // namespace trcore
