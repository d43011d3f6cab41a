// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// RequestScores: one request against all open instances, as columns beside theirs: what it would
// cost, how long it would take, whether it may go there, its score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trcore/open_instances.hpp"

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

class RequestScores {
public:
    // Room for as many rows, and models.
    void resize(std::size_t rows, std::size_t models);

    // Cost, time and candidates. False if there is no candidate: then score() must not be called.
    bool price(const OpenInstances& open, const AssignRequest& request) noexcept;

    // The terms and their sum, over the candidates that price() found.
    void score(const OpenInstances& open, const AssignRequest& request, bool minmax) noexcept;

    // The open row with the best score, or the lowest cost, or the shortest time, among candidates.
    [[nodiscard]] std::size_t best(const OpenInstances& open) const noexcept;
    [[nodiscard]] std::size_t cheapest(const OpenInstances& open) const noexcept;
    [[nodiscard]] std::size_t fastest(const OpenInstances& open) const noexcept;

    struct Terms { double quality, cost, latency, score, usd, seconds; };
    [[nodiscard]] Terms terms(std::size_t at) const noexcept;
    // -inf for those that are no candidates.
    [[nodiscard]] double score_of(std::size_t at) const noexcept { return score_[at]; }

private:
    // Writes what filters other than window and ceilings are against.
    void bar(const OpenInstances& open, const AssignRequest& request) noexcept;
    // The first of the candidates with keys[at] == key in the order of the ties.
    [[nodiscard]] std::size_t first(const OpenInstances& open, const std::vector<double>& keys,
                                    double key) const noexcept;

    // By open row, [padded].
    std::vector<double> usd_;
    std::vector<double> seconds_;
    std::vector<double> length_;   // of the row's model
    std::vector<double> quality_;  // of the row's model, normalised
    std::vector<double> barred_;   // 0, or -inf where a filter other than the window is against it
    std::vector<double> closed_;   // 0 for candidates, else -inf
    std::vector<double> score_;
    std::vector<double> by_model_;  // [M] normalised qualities
    double least_usd_ = 0, least_seconds_ = 0;
    double most_usd_ = 0, most_seconds_ = 0;  // to divide by: infinite where all are equal
    double best_ = 0;                         // score
};

}  // namespace trcore
