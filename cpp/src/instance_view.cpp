// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/instance_view.hpp"

#include <limits>
#include <stdexcept>
#include <string>

namespace trcore {

InstanceView::InstanceView(std::size_t instances) {
    if (instances < 1 || instances > kMaxInstances) {
        throw std::invalid_argument("instances: must be 1 to " + std::to_string(kMaxInstances) +
                                    ", not " + std::to_string(instances));
    }
    auto& [model, input_price, output_price, tpot_s, prior_tpot_s, prefill_rate, slots, running,
           waiting, pending_decode, pending_prefill, last_assigned, healthy, draining,
           context_window, capabilities] = columns;
    for (auto* whole : {&model, &slots, &running, &waiting, &context_window}) {
        whole->assign(instances, 0);
    }
    for (auto* real : {&input_price, &output_price, &prior_tpot_s, &prefill_rate, &pending_decode,
                       &pending_prefill}) {
        real->assign(instances, 0.0);
    }
    tpot_s.assign(instances, std::numeric_limits<double>::quiet_NaN());
    last_assigned.assign(instances, 0);
    healthy.assign(instances, 0);
    draining.assign(instances, 0);
    capabilities.assign(instances, 0);
}

void InstanceView::add(std::size_t instance, const Load& load) {
    if (instance >= size()) {
        throw std::out_of_range("instance: there is no " + std::to_string(instance) + " among " +
                                std::to_string(size()));
    }
    columns.running[instance] += load.running;
    columns.waiting[instance] += load.waiting;
    columns.pending_decode[instance] += load.pending_decode;
    columns.pending_prefill[instance] += load.pending_prefill;
}

}  // namespace trcore
