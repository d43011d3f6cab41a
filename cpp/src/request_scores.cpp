// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/request_scores.hpp"

#include <algorithm>
#include <utility>

#include "score_kernels.hpp"
#include "trcore/why_not.hpp"

namespace trcore {
namespace {

using kernels::kInfinity;

// The loops for one instruction set.
struct Loops {
    void (*price)(const Snapshot&, const AssignRequest&, ScoreColumns&) noexcept;
    void (*score)(const Snapshot&, const AssignRequest&, bool, ScoreColumns&) noexcept;
    std::size_t (*block_with)(std::size_t, std::size_t, const double*, double) noexcept;
};

void price(const Snapshot& of, const AssignRequest& request, ScoreColumns& to) noexcept {
    kernels::price<kernels::Two>(of, request, to);
}
void score(const Snapshot& of, const AssignRequest& request, bool minmax,
           ScoreColumns& to) noexcept {
    kernels::score<kernels::Two>(of, request, minmax, to);
}
std::size_t block_with(std::size_t from, std::size_t n, const double* values, double key) noexcept {
    return kernels::block_with<kernels::Two>(from, n, values, key);
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] void price_avx2(const Snapshot& of, const AssignRequest& request,
                                        ScoreColumns& to) noexcept {
    kernels::price<kernels::Four>(of, request, to);
}
[[gnu::target("avx2")]] void score_avx2(const Snapshot& of, const AssignRequest& request,
                                        bool minmax, ScoreColumns& to) noexcept {
    kernels::score<kernels::Four>(of, request, minmax, to);
}
[[gnu::target("avx2")]] std::size_t block_with_avx2(std::size_t from, std::size_t n,
                                                    const double* values, double key) noexcept {
    return kernels::block_with<kernels::Four>(from, n, values, key);
}
const Loops loops = __builtin_cpu_supports("avx2") ? Loops{price_avx2, score_avx2, block_with_avx2}
                                                   : Loops{price, score, block_with};

#else

constexpr Loops loops{price, score, block_with};

#endif

}  // namespace

void RequestScores::resize(std::size_t padded) {
    auto& [length, quality, usd, seconds, barred, closed, score, r1, r2, best] = columns_;
    for (auto* column : {&length, &quality, &usd, &seconds, &closed, &score}) {
        column->resize(padded);
    }
    barred.assign(padded, 0.0);
}

void RequestScores::bar(const Snapshot& of, const AssignRequest& request) noexcept {
    for (std::size_t at = 0; at < of.count; ++at) {
        const bool allowed = has_capabilities(of.capabilities[at], request.needs) &&
                             is_allowed(request.models, of.model[at]) &&
                             is_allowed(request.instances, at);
        columns_.barred[at] = allowed ? 0.0 : -kInfinity;
    }
}

bool RequestScores::price(const Snapshot& of, const AssignRequest& request) noexcept {
    const bool bars =
        request.needs != 0 || request.models != nullptr || request.instances != nullptr;
    if (bars) bar(of, request);
    loops.price(of, request, columns_);
    if (bars) std::fill(columns_.barred.begin(), columns_.barred.end(), 0.0);
    return columns_.usd_range.low < kInfinity;
}

void RequestScores::score(const Snapshot& of, const AssignRequest& request,
                          bool minmax) noexcept {
    loops.score(of, request, minmax, columns_);
}

std::size_t RequestScores::first(const Snapshot& of, const std::vector<double>& keys,
                                 double key) const noexcept {
    const auto rank = [&of](std::size_t at) {
        return std::pair(of.in_flight[at], of.last[at]);
    };
    const auto block = [&](std::size_t from) {
        return loops.block_with(from, of.padded, keys.data(), key);
    };
    std::size_t found = of.count;
    for (std::size_t at = block(0); at < of.padded; at = block(at)) {
        for (const std::size_t end = at + Snapshot::kBlock; at < end; ++at) {
            if (keys[at] != key || columns_.closed[at] != 0) continue;
            if (found == of.count || rank(at) < rank(found)) found = at;
        }
    }
    return found;
}

std::size_t RequestScores::best(const Snapshot& of) const noexcept {
    return first(of, columns_.score, columns_.best);
}

std::size_t RequestScores::cheapest(const Snapshot& of) const noexcept {
    return first(of, columns_.usd, columns_.usd_range.low);
}

std::size_t RequestScores::fastest(const Snapshot& of) const noexcept {
    return first(of, columns_.seconds, columns_.seconds_range.low);
}

RequestScores::Terms RequestScores::terms(std::size_t at) const noexcept {
    const double usd = columns_.usd[at], seconds = columns_.seconds[at];
    return {columns_.quality[at], 1.0 - usd / kernels::divisor(columns_.usd_range),
            1.0 - seconds / kernels::divisor(columns_.seconds_range), columns_.score[at],
            usd, seconds};
}

}  // namespace trcore
