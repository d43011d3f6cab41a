// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// BatchMeans: a confidence interval for tokens per second from one long run. Internal.
//
// The run is cut into segments of equal tokens; those that are long against the run's memory are
// nearly independent. Throughput is a ratio, sum of tokens over sum of times, so its variance is
// that of (tokens - throughput * time) by segment.
#pragma once

#include <vector>

namespace trcore {

class BatchMeans {
public:
    BatchMeans(double now, double committed, double tokens);

    // After each event.
    void record(double now, double committed);

    [[nodiscard]] bool full() const noexcept { return committed_ - began_tokens_ >= tokens_; }
    [[nodiscard]] double tokens() const noexcept { return committed_ - began_tokens_; }
    // 95 %; infinite with fewer than two segments.
    [[nodiscard]] double half_width() const;

private:
    struct Segment { double tokens, seconds; };

    double began_tokens_;
    double tokens_;
    double committed_;
    Segment at_;  // where the current segment began
    std::vector<Segment> segments_;
};

}  // namespace trcore
