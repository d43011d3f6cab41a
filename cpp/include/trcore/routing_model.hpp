// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// RoutingModel: what M models do to N requests, as the Markov chain and the simulation see it.
//
// A request is at one model at a time. After a step there it goes to model j with probability
// P[i][j] and commits C[i][j] tokens (their mean: not necessarily whole). A step of a batch of b
// takes L_i(b) seconds. P may depend on how long the request has been at i: P[k] is for its
// (k+1)-th step since it arrived, the last row for all later ones. Staying (j = i) goes on with
// the same run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trcore {

class RoutingModel {
public:
    static constexpr std::size_t kMaxModels = 16;

    // routing: [runs, M, M], rows sum to 1 within 1e-9 and are then normalised; tokens: [M, M];
    // seconds: M lists, by batch size 1, 2, ..., the last value holds beyond. Throws
    // std::invalid_argument that begins with "P:", "C:" or "L:".
    RoutingModel(std::size_t models, std::vector<double> routing, std::vector<double> tokens,
                 std::vector<std::vector<double>> seconds);

    [[nodiscard]] std::size_t models() const noexcept { return models_; }
    [[nodiscard]] std::size_t runs() const noexcept { return routing_.size() / (models_ * models_); }

    // P[run][from], one probability for each model to go to.
    [[nodiscard]] std::span<const double> routing(std::size_t run, std::size_t from) const noexcept {
        return {routing_.data() + (run * models_ + from) * models_, models_};
    }
    // C[from], tokens committed on the way to each model.
    [[nodiscard]] std::span<const double> tokens(std::size_t from) const noexcept {
        return {tokens_.data() + from * models_, models_};
    }
    [[nodiscard]] double seconds(std::size_t model, std::size_t batch) const noexcept {
        const auto& of = seconds_[model];
        return of[batch < of.size() ? batch - 1 : of.size() - 1];
    }
    // The smallest L_i(b) with b <= requests.
    [[nodiscard]] double least_seconds(std::size_t requests) const noexcept;

private:
    std::size_t models_;
    std::vector<double> routing_;
    std::vector<double> tokens_;
    std::vector<std::vector<double>> seconds_;
};

}  // namespace trcore
