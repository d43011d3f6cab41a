// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "elimination.hpp"

#include <cstddef>

namespace trcore {

void stationary_by_elimination(std::span<double> transitions, std::span<double> distribution) {
    const std::size_t n = distribution.size();
    const auto row = [&](std::size_t i) { return transitions.data() + i * n; };
    for (std::size_t k = n - 1; k > 0; --k) {
        const double* of_k = row(k);
        double leaves = 0;  // to states that are left: 1 - T[k][k] without a subtraction
        for (std::size_t j = 0; j < k; ++j) leaves += of_k[j];
        for (std::size_t i = 0; i < k; ++i) {
            double* of_i = row(i);
            if (of_i[k] == 0) continue;
            const double through = of_i[k] /= leaves;
            for (std::size_t j = 0; j < k; ++j) of_i[j] += through * of_k[j];
        }
    }
    double sum = distribution[0] = 1;
    for (std::size_t k = 1; k < n; ++k) {
        double visits = 0;
        for (std::size_t i = 0; i < k; ++i) visits += distribution[i] * row(i)[k];
        distribution[k] = visits;
        sum += visits;
    }
    for (double& share : distribution) share /= sum;
}

}  // namespace trcore
