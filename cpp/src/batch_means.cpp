// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "batch_means.hpp"

#include <cmath>
#include <limits>

namespace trcore {
namespace {

constexpr int kSegments = 32;

// The 97.5 % quantile of Student's t: Cornish and Fisher's expansion, right to 1 % from 3 degrees
// of freedom on (below, intervals mean little anyway).
double student(double degrees) {
    const double z = 1.959964;
    const double z3 = z * z * z;
    return z + (z3 + z) / (4 * degrees) +
           (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

}  // namespace

BatchMeans::BatchMeans(double now, double committed, double tokens)
    : began_tokens_(committed), tokens_(tokens), committed_(committed), at_{committed, now} {}

void BatchMeans::record(double now, double committed) {
    committed_ = committed;
    const double next = began_tokens_ + tokens_ * static_cast<double>(segments_.size() + 1) / kSegments;
    if (committed < next) return;
    segments_.push_back({committed - at_.tokens, now - at_.seconds});
    at_ = {committed, now};
}

double BatchMeans::half_width() const {
    const auto count = static_cast<double>(segments_.size());
    if (count < 2) return std::numeric_limits<double>::infinity();
    double tokens = 0;
    double seconds = 0;
    for (const Segment& s : segments_) {
        tokens += s.tokens;
        seconds += s.seconds;
    }
    double squares = 0;
    for (const Segment& s : segments_) {
        const double off = s.tokens - tokens / seconds * s.seconds;
        squares += off * off;
    }
    const double deviation = std::sqrt(squares / (count - 1) / count);
    return student(count - 1) * deviation / (seconds / count);
}

}  // namespace trcore
