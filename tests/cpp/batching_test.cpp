// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Policy, chain, simulation and search through their public headers; what they must compute in
// detail is tested in packages/trcore/tests.
#include "trcore/batching.hpp"

#include <cmath>
#include <limits>

#include "check.hpp"
#include "trcore/dtmc.hpp"
#include "trcore/threshold_search.hpp"
#include "trcore/thresholds.hpp"

using Thresholds = std::vector<std::int64_t>;

// R2R, steps of 6.0 and 27.9 ms.
trcore::RoutingModel r2r(double p) {
    return {2, {1 - p, p, 1, 0}, {1, 0, 1, 0}, {{0.006}, {0.0279}}};
}

TEST(the_policy_at_its_edges) {
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    CHECK(trcore::deadlock_free(Thresholds{1, 3}, 3) && !trcore::deadlock_free(Thresholds{2, 3}, 3));
    CHECK(!trcore::deadlock_free(Thresholds{kHuge, kHuge, kHuge}, kHuge));
    CHECK(!trcore::deadlock_free(Thresholds{}, 0) && trcore::deadlock_free(Thresholds{-kHuge}, 1));
    CHECK((trcore::effective_thresholds(Thresholds{kHuge, 2, kHuge}, 5) == Thresholds{3, 2, 2}));
    CHECK(trcore::effective_thresholds(Thresholds{}, 5).empty());
    CHECK(trcore::may_start(1, -kHuge) && !trcore::may_start(0, -kHuge));
}

TEST(feasible_thresholds_are_counted_and_listed) {
    CHECK(trcore::count_feasible(3, 16, 100'000) == 816 && trcore::count_feasible(3, 16, 10) == 10);
    const Thresholds expected{1, 1, 1, 2, 2, 1};
    CHECK(trcore::feasible_thresholds(2, 2, 3) == expected);
    CHECK_THROWS(std::invalid_argument, "N:", trcore::feasible_thresholds(2, 2, 2));
}

TEST(the_chain_the_simulation_and_the_search_agree) {
    const trcore::RoutingModel model = r2r(0.35);
    const auto best = trcore::best_thresholds(model, 8, {.quantum = 1e-4});
    CHECK((best.thresholds == Thresholds{1, 5}) && best.largest_chain == 3453);
    CHECK(std::abs(best.throughput - 399.0495) < 1e-4);
    trcore::SimulationOptions options;
    options.tokens = 200'000;
    const auto run = trcore::simulate(model, 8, best.thresholds, options);
    CHECK(std::abs(run.throughput - best.throughput) < 2 * run.half_width);
    const auto found = trcore::search_thresholds(model, 8);
    CHECK(found.throughputs.size() == 36);
    CHECK(trcore::solve(model, 8, found.thresholds, {}).throughput > 0.99 * best.throughput);
}

TEST(chains_that_hardly_mix_are_eliminated) {
    // Both hand over once in 10^8 steps; by symmetry each has half of the steps.
    const trcore::RoutingModel model(2, {1 - 1e-8, 1e-8, 1e-8, 1 - 1e-8}, {1, 1, 1, 1},
                                     {{0.002}, {0.004}});
    const auto one = trcore::solve(model, 1, Thresholds{1, 1}, {.quantum = 1e-3});
    CHECK(std::abs(one.throughput - 1 / 0.003) < 1e-6);
    CHECK(trcore::solve(model, 4, Thresholds{1, 2}, {.quantum = 1e-3}).throughput > 0);
}

TEST(what_cannot_be_solved_says_so) {
    const Thresholds eager{1, 1};
    trcore::ChainOptions few;
    few.quantum = 1e-4;
    few.max_states = 100;
    CHECK_THROWS(trcore::StateSpaceTooLarge, "simulate", trcore::solve(r2r(0.35), 8, eager, few));
    const trcore::RoutingModel split(3, {0, 0.5, 0.5, 0, 1, 0, 0, 0, 1}, std::vector<double>(9, 1.0),
                                     {{0.1}, {0.1}, {0.1}});
    CHECK_THROWS(trcore::ReducibleChain, "{1} and {2}",
                 trcore::solve(split, 2, Thresholds{1, 1, 1}, {}));
    CHECK_THROWS(std::invalid_argument, "P:", r2r(-0.1));
    CHECK_THROWS(std::invalid_argument, "B:", trcore::solve(r2r(0.1), 1, Thresholds{1}, {}));
}

int main() { return check::run_all_tests(); }
