// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// View and assignment through their public headers; what they must compute in detail is tested
// against a plain reference in packages/trcore/tests.
#include "trcore/assign.hpp"

#include <cmath>
#include <limits>

#include "check.hpp"

using trcore::AssignRules;
using trcore::InstanceView;

// Equal idle instances of one model, all open.
void open_all(InstanceView& view) {
    auto& c = view.columns;
    for (std::size_t i = 0; i < view.size(); ++i) {
        c.input_price[i] = c.output_price[i] = 0.1;
        c.tpot_s[i] = c.prior_tpot_s[i] = 0.02;
        c.slots[i] = 4;
        c.healthy[i] = 1;
        c.context_window[i] = 2048;
    }
}

// R equal requests of 100 tokens and their answers.
struct Batch {
    explicit Batch(std::size_t requests, std::size_t models = 1)
        : prompt(requests, 100), most(requests, 500), chosen(requests, -9), tokens(requests, -9),
          quality(requests * models, 0.5F), length(requests * models, 50.4F) {}

    std::vector<double> weights{0.2, 0.2, 0.6};
    std::vector<std::int32_t> prompt, most, chosen, tokens;
    std::vector<float> quality, length;

    trcore::AssignBatch asked() const { return {weights, prompt, most, quality, length}; }
    trcore::AssignOutputs outputs() { return {chosen, tokens}; }
};

AssignRules rules(std::size_t models = 1) {
    AssignRules made;
    made.prior_quality.assign(models, 0.3);
    made.prior_length.assign(models, 200);
    return made;
}

TEST(a_batch_spreads_and_is_committed) {
    InstanceView view(37);  // more than one block, and a remainder
    open_all(view);
    view.columns.draining[5] = 1;
    view.columns.healthy[20] = 0;
    Batch batch(35);
    trcore::Assigner assigner;
    const AssignRules equal = rules();
    assigner.begin(view, equal, batch.asked(), batch.outputs());
    CHECK(assigner.run().unassigned == 0);
    CHECK(view.columns.waiting[0] == 0);  // nothing is written before commit()
    assigner.commit(view);
    for (std::size_t i = 0; i < view.size(); ++i) {
        const bool open = i != 5 && i != 20;
        CHECK(view.columns.waiting[i] == (open ? 1 : 0));
        CHECK(view.columns.pending_decode[i] == (open ? 50.0 : 0.0));
        CHECK(view.columns.pending_prefill[i] == (open ? 100.0 : 0.0));
        CHECK((view.columns.last_assigned[i] > 0) == open);
    }
    for (const std::int32_t i : batch.chosen) {
        view.add(static_cast<std::size_t>(i),
                 {.waiting = -1, .pending_decode = -50, .pending_prefill = -100});
    }
    for (const double left : view.columns.pending_decode) CHECK(left == 0);
}

TEST(an_assigner_is_used_again_for_smaller_and_larger_views) {
    trcore::Assigner assigner;
    const AssignRules equal = rules();
    for (const std::size_t instances : {500U, 3U, 16U, 17U, 1U, 500U}) {
        InstanceView view(instances);
        open_all(view);
        view.columns.tpot_s[instances - 1] = 0.01;  // the fastest
        Batch batch(1);
        assigner.begin(view, equal, batch.asked(), batch.outputs());
        assigner.run();
        CHECK(batch.chosen[0] == static_cast<std::int32_t>(instances) - 1);
    }
}

TEST(bad_predictions_fall_back_and_are_counted) {
    InstanceView view(3);
    open_all(view);
    view.columns.model = {0, 1, 2};
    view.columns.tpot_s[0] = std::numeric_limits<double>::quiet_NaN();
    Batch batch(1, 3);
    batch.weights = {1, 0, 0};
    batch.quality = {std::numeric_limits<float>::infinity(), 0.4F, NAN};
    batch.length = {NAN, 10, -std::numeric_limits<float>::infinity()};
    trcore::Assigner assigner;
    const AssignRules priors = rules(3);
    assigner.begin(view, priors, batch.asked(), batch.outputs());
    const trcore::Assigned counted = assigner.run();
    CHECK(counted.quality_priors == 2 && counted.length_priors == 2 && counted.tpot_priors == 1);
    CHECK(batch.chosen[0] == 1 && batch.tokens[0] == 10);
}

TEST(masks_cover_the_last_row_and_no_more) {
    InstanceView view(17);
    open_all(view);
    Batch batch(1);
    const std::vector<std::uint8_t> instances = [] {
        std::vector<std::uint8_t> only(17, 0);
        only[16] = 1;
        return only;
    }();
    trcore::AssignBatch asked = batch.asked();
    asked.instances = instances;
    trcore::Assigner assigner;
    const AssignRules equal = rules();
    assigner.begin(view, equal, asked, batch.outputs());
    assigner.run();
    CHECK(batch.chosen[0] == 16);
}

TEST(what_keeps_a_request_from_an_instance_is_told_by_bits) {
    InstanceView view(3);
    open_all(view);
    view.columns.draining[0] = 1;
    view.columns.context_window[0] = 10;
    view.columns.healthy[1] = 0;
    Batch batch(1);
    std::vector<std::uint8_t> why(3, 9);
    trcore::why_not(view, batch.asked(), {}, 1, why);
    CHECK(why[0] == 1 + 4 && why[1] == 2 && why[2] == 0);
    const std::vector<double> seconds(3, 2.0), most(1, 1.0);
    trcore::AssignBatch asked = batch.asked();
    asked.max_seconds = most;
    trcore::why_not(view, asked, {.usd = {}, .seconds = seconds}, 1, why);
    CHECK(why[2] == static_cast<std::uint8_t>(trcore::WhyNot::above_max_seconds));
}

TEST(what_is_wrong_is_said_before_anything_is_written) {
    InstanceView view(2);
    open_all(view);
    Batch batch(2);
    trcore::Assigner assigner;
    const AssignRules equal = rules();
    const auto begin = [&] { assigner.begin(view, equal, batch.asked(), batch.outputs()); };
    view.columns.model[1] = 1;
    CHECK_THROWS(std::invalid_argument, "model: ", begin());
    view.columns.healthy[1] = 0;  // a closed row may hold anything
    begin();
    view.columns.prior_tpot_s[0] = 0;
    CHECK_THROWS(std::invalid_argument, "prior_tpot_s: ", begin());
    open_all(view);
    view.columns.model[1] = 0;
    batch.weights = {0.5, 0.5, 0.5};
    CHECK_THROWS(std::invalid_argument, "weights: ", begin());
    batch.weights = {0, 0, 1};
    batch.quality.pop_back();
    CHECK_THROWS(std::invalid_argument, "quality: ", begin());
    CHECK(batch.chosen[0] == -9);
    CHECK_THROWS(std::out_of_range, "instance: ", view.add(2, {}));
    CHECK_THROWS(std::invalid_argument, "instances: ", InstanceView(0));
}

int main() { return check::run_all_tests(); }
