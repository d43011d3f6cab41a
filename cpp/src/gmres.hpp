// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Gmres: solves (I - T) z = r for a T that is only known by its products T v. Internal.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace trcore {

class Gmres {
public:
    static constexpr std::size_t kBasis = 24;

    using Product = std::function<void(std::span<const double> v, std::span<double> tv)>;

    // The best z in the Krylov space of r, of up to kBasis dimensions or until |r - (I - T) z| is
    // below `residual` (2-norms). Good until the next call, which reuses its memory.
    std::span<const double> solve(const Product& product, std::span<const double> r,
                                  double residual);

    // Of the last call: an estimate, from above, of how much larger z may be than r, for any r in
    // that space. Infinite if part of r could not be reached.
    [[nodiscard]] double amplification() const noexcept { return amplification_; }

private:
    void extend(const Product& product, std::size_t k);
    double rotate(std::size_t k);
    std::span<const double> combine(std::size_t k, std::size_t n);
    [[nodiscard]] double norm_of_inverse(std::size_t k) const;

    // By column of the Hessenberg matrix, made triangular by rotations as it grows.
    double h_[kBasis + 1][kBasis] = {};
    double cosine_[kBasis] = {};
    double sine_[kBasis] = {};
    double g_[kBasis + 1] = {};  // right-hand side, rotated; the last one is the residual
    double amplification_ = 0;
    std::vector<std::vector<double>> basis_;
    std::vector<double> z_;
};

}  // namespace trcore
