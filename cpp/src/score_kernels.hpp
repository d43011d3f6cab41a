// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// The loops over all instances, where an assignment's time goes. Internal.
//
// Plain loops are vectorised by the compiler: straight, without branches, over columns that don't
// overlap. What it doesn't do by itself, greatest and least, is written for vectors of Lanes. All
// is inlined into a function for each instruction set (request_scores.cpp). Columns are padded, so
// that there is no remainder.
//
// NO FUSED MULTIPLY-ADD, or scores would differ in the last bit from one processor to another: the
// file that includes this is compiled with -ffp-contract=off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "fill_column.hpp"
#include "trcore/request_scores.hpp"
#include "trcore/snapshot.hpp"
#include "trcore/why_not.hpp"

#define TRCORE_KERNEL [[gnu::always_inline]] inline

namespace trcore::kernels {

inline constexpr std::size_t kBlock = Snapshot::kBlock;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Doubles of one vector register.
using Two [[gnu::vector_size(16)]] = double;
using Four [[gnu::vector_size(32)]] = double;

template <class Lanes>
inline constexpr std::size_t kCount = sizeof(Lanes) / sizeof(double);

// By reference: a function that returned Four would be called differently with and without AVX.
template <class Lanes>
TRCORE_KERNEL void load(const double* from, Lanes& lanes) noexcept {
    std::memcpy(&lanes, from, sizeof lanes);
}

template <class Lanes>
TRCORE_KERNEL double greatest_of(const Lanes& lanes) noexcept {
    double all = lanes[0];
    for (std::size_t l = 1; l < kCount<Lanes>; ++l) all = lanes[l] > all ? lanes[l] : all;
    return all;
}

template <class Lanes>
TRCORE_KERNEL double greatest(std::size_t n, const double* values) noexcept {
    Lanes high = Lanes{} - kInfinity;
    for (std::size_t i = 0; i < n; i += kCount<Lanes>) {
        Lanes value;
        load(values + i, value);
        high = value > high ? value : high;
    }
    return greatest_of<Lanes>(high);
}

// Least and greatest of the values whose closed[i] is 0; inf and -inf if there are none.
template <class Lanes>
TRCORE_KERNEL ScoreRange range(std::size_t n, const double* values, const double* closed) noexcept {
    Lanes low = Lanes{} + kInfinity, high = -low;
    for (std::size_t i = 0; i < n; i += kCount<Lanes>) {
        Lanes value, bar;
        load(values + i, value);
        load(closed + i, bar);
        const Lanes up = value + bar, down = value - bar;  // infinite where closed
        high = up > high ? up : high;
        low = down < low ? down : low;
    }
    return {-greatest_of<Lanes>(-low), greatest_of<Lanes>(high)};
}

// The value of each instance's model.
TRCORE_KERNEL void spread(const Snapshot& of, const double* __restrict by_model,
                          double* __restrict out) noexcept {
    const std::uint32_t* __restrict model = of.model.data();
    for (std::size_t i = 0; i < of.padded; ++i) out[i] = by_model[model[i]];
}

// Cost and time at each instance, and 0 in `closed` where the request may go, else -inf.
template <class Lanes>
TRCORE_KERNEL void price(const Snapshot& of, const AssignRequest& request,
                         ScoreColumns& to) noexcept {
    const std::size_t n = of.padded;
    const double prompt = request.prompt, total = request.total;
    const double max_usd = request.max_usd, max_seconds = request.max_seconds;
    spread(of, request.length, to.length.data());
    fill_column(to.usd.data(), n, [=](double length, double input_usd, double output_usd) {
        return prompt * input_usd + length * output_usd;
    }, to.length.data(), of.input_usd.data(), of.output_usd.data());
    fill_column(to.seconds.data(), n, [=](double length, double tpot_s, double backlog,
                                          double pending_prefill, double prefill_s) {
        return tpot_s * (backlog + length) + (pending_prefill + prompt) * prefill_s;
    }, to.length.data(), of.tpot_s.data(), of.backlog.data(), of.pending_prefill.data(),
       of.prefill_s.data());
    fill_column(to.closed.data(), n, [=](double window, double usd, double seconds, double barred) {
        const double fits = has_room(window, total) ? barred : -kInfinity;
        const double cheap = is_within(usd, max_usd) ? fits : -kInfinity;
        return is_within(seconds, max_seconds) ? cheap : -kInfinity;
    }, of.window.data(), to.usd.data(), to.seconds.data(), to.barred.data());
    to.usd_range = range<Lanes>(n, to.usd.data(), to.closed.data());
    to.seconds_range = range<Lanes>(n, to.seconds.data(), to.closed.data());
}

// What to divide by: makes the term 1 where all are equal.
TRCORE_KERNEL double divisor(const ScoreRange& range) noexcept {
    return range.high > range.low ? range.high : kInfinity;
}

// Qualities, normalised if asked for, and the scores.
template <class Lanes>
TRCORE_KERNEL void score(const Snapshot& of, const AssignRequest& request, bool minmax,
                         ScoreColumns& to) noexcept {
    const std::size_t n = of.padded;
    spread(of, request.quality, to.quality.data());
    if (minmax) {
        const auto [low, high] = range<Lanes>(n, to.quality.data(), to.closed.data());
        for (double& quality : to.quality) {
            quality = high > low ? (quality - low) / (high - low) : 1.0;
        }
    }
    const double w_qual = request.weights[0], w_cost = request.weights[1];
    const double w_lat = request.weights[2];
    const double most_usd = divisor(to.usd_range), most_seconds = divisor(to.seconds_range);
    fill_column(to.score.data(), n, [=](double quality, double usd, double seconds, double closed) {
        return w_qual * quality + w_cost * (1.0 - usd / most_usd) +
               w_lat * (1.0 - seconds / most_seconds) + closed;
    }, to.quality.data(), to.usd.data(), to.seconds.data(), to.closed.data());
    to.best = greatest<Lanes>(n, to.score.data());
}

// The first i >= from, in blocks of kBlock, in whose block some value is `key`; n if there is none.
template <class Lanes>
TRCORE_KERNEL std::size_t block_with(std::size_t from, std::size_t n, const double* values,
                                     double key) noexcept {
    for (std::size_t i = from; i < n; i += kBlock) {
        auto equal = Lanes{} != Lanes{};
        for (std::size_t j = i; j < i + kBlock; j += kCount<Lanes>) {
            Lanes value;
            load(values + j, value);
            equal |= value == key;
        }
        for (std::size_t l = 0; l < kCount<Lanes>; ++l) {
            if (equal[l] != 0) return i;
        }
    }
    return n;
}

}  // namespace trcore::kernels
