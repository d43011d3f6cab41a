// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/routing_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

namespace trcore {
namespace {

constexpr double kRowTolerance = 1e-9;

void check_shape(bool right, const char* what) {
    if (!right) throw std::invalid_argument(what);
}

}  // namespace

RoutingModel::RoutingModel(std::size_t models, std::vector<double> routing,
                           std::vector<double> tokens, std::vector<std::vector<double>> seconds)
    : models_(models), routing_(std::move(routing)), tokens_(std::move(tokens)),
      seconds_(std::move(seconds)) {
    check_shape(models >= 1 && models <= kMaxModels, "P: must be for 1 to 16 models");
    check_shape(!routing_.empty() && routing_.size() % (models * models) == 0,
                "P: must have the shape [M, M] or [runs, M, M]");
    check_shape(tokens_.size() == models * models, "C: must have the shape [M, M], as P");
    check_shape(seconds_.size() == models, "L: must hold one sequence for each model of P");
    for (std::size_t at = 0; at < routing_.size(); at += models) {
        const std::span<double> row(routing_.data() + at, models);
        for (const double p : row) {
            if (!(p >= 0)) {
                throw std::invalid_argument("P: holds " + std::to_string(p) + ", no probability");
            }
        }
        const double sum = std::accumulate(row.begin(), row.end(), 0.0);
        if (!(std::abs(sum - 1) <= kRowTolerance)) {
            throw std::invalid_argument("P: each row must sum to 1, row " +
                                        std::to_string(at / models % models) + " sums to " +
                                        std::to_string(sum));
        }
        for (double& p : row) p /= sum;
    }
    for (const double c : tokens_) {
        if (!(c >= 0) || !std::isfinite(c)) {
            throw std::invalid_argument("C: must be finite and 0 or more, not " + std::to_string(c));
        }
    }
    for (std::size_t i = 0; i < models; ++i) {
        if (seconds_[i].empty()) {
            throw std::invalid_argument("L: model " + std::to_string(i) + " has no step time");
        }
        for (const double s : seconds_[i]) {
            if (!(s > 0) || !std::isfinite(s)) {
                throw std::invalid_argument("L: must be finite and above 0, not " + std::to_string(s));
            }
        }
    }
}

double RoutingModel::least_seconds(std::size_t requests) const noexcept {
    double least = seconds(0, 1);
    for (std::size_t i = 0; i < models_; ++i) {
        const std::size_t known = std::min(requests, seconds_[i].size());
        least = std::min(least, *std::min_element(seconds_[i].begin(),
                                                  seconds_[i].begin() + static_cast<long>(known)));
    }
    return least;
}

}  // namespace trcore
