// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "gmres.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trcore {
namespace {

// What is left of a product after it was made orthogonal to the basis, relative to it: below this
// it is rounding, and the Krylov space is all there is.
constexpr double kExhausted = 1e-12;

double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

}  // namespace

std::span<const double> Gmres::solve(const Product& product, std::span<const double> r,
                                     double residual) {
    const std::size_t n = r.size();
    const std::size_t most = std::min(kBasis, n);
    if (basis_.size() <= most) basis_.resize(most + 1);
    const double length = std::sqrt(dot(r, r));
    std::fill(std::begin(g_), std::end(g_), 0.0);
    g_[0] = length;
    std::size_t k = 0;
    bool reached = true;
    if (length > residual) {
        basis_[0].assign(r.begin(), r.end());
        for (double& v : basis_[0]) v /= length;
        while (k < most) {
            extend(product, k);
            const double next = h_[k + 1][k];
            if (rotate(k) <= kExhausted) {
                reached = std::abs(g_[k]) <= residual;
                break;
            }
            ++k;
            if (std::abs(g_[k]) <= residual || next <= kExhausted) break;
        }
    }
    amplification_ = reached ? norm_of_inverse(k) : std::numeric_limits<double>::infinity();
    return combine(k, n);
}

// Adds (I - T) of basis vector k to the basis, orthogonal to the others (twice, against rounding).
void Gmres::extend(const Product& product, std::size_t k) {
    const auto& v = basis_[k];
    auto& w = basis_[k + 1];
    w.resize(v.size());
    product(v, w);
    for (std::size_t i = 0; i < v.size(); ++i) w[i] = v[i] - w[i];
    for (std::size_t row = 0; row <= k; ++row) h_[row][k] = 0;
    for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t row = 0; row <= k; ++row) {
            const auto& u = basis_[row];
            const double along = dot(u, w);
            h_[row][k] += along;
            for (std::size_t i = 0; i < w.size(); ++i) w[i] -= along * u[i];
        }
    }
    const double norm = std::sqrt(dot(w, w));
    h_[k + 1][k] = norm;
    if (norm > 0) {
        for (double& x : w) x /= norm;
    }
}

// Makes column k triangular; returns its new diagonal element.
double Gmres::rotate(std::size_t k) {
    for (std::size_t row = 0; row < k; ++row) {
        const double a = h_[row][k];
        const double b = h_[row + 1][k];
        h_[row][k] = cosine_[row] * a + sine_[row] * b;
        h_[row + 1][k] = cosine_[row] * b - sine_[row] * a;
    }
    const double diagonal = std::hypot(h_[k][k], h_[k + 1][k]);
    if (diagonal <= kExhausted) return diagonal;
    cosine_[k] = h_[k][k] / diagonal;
    sine_[k] = h_[k + 1][k] / diagonal;
    h_[k][k] = diagonal;
    g_[k + 1] = -sine_[k] * g_[k];
    g_[k] *= cosine_[k];
    return diagonal;
}

std::span<const double> Gmres::combine(std::size_t k, std::size_t n) {
    double y[kBasis] = {};
    for (std::size_t row = k; row-- > 0;) {
        y[row] = g_[row];
        for (std::size_t column = row + 1; column < k; ++column) {
            y[row] -= h_[row][column] * y[column];
        }
        y[row] /= h_[row][row];
    }
    z_.assign(n, 0.0);
    for (std::size_t column = 0; column < k; ++column) {
        for (std::size_t i = 0; i < n; ++i) z_[i] += y[column] * basis_[column][i];
    }
    return z_;
}

// Of the triangle: Frobenius, by solving for each unit vector.
double Gmres::norm_of_inverse(std::size_t k) const {
    double squares = 0;
    for (std::size_t unit = 0; unit < k; ++unit) {
        double x[kBasis] = {};
        for (std::size_t row = unit + 1; row-- > 0;) {
            double sum = row == unit ? 1 : 0;
            for (std::size_t column = row + 1; column <= unit; ++column) {
                sum -= h_[row][column] * x[column];
            }
            x[row] = sum / h_[row][row];
            squares += x[row] * x[row];
        }
    }
    return std::sqrt(squares);
}

}  // namespace trcore
