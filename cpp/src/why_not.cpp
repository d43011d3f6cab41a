// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/why_not.hpp"

#include <cmath>

#include "trcore/assign.hpp"

namespace trcore {
namespace {

std::uint8_t bit(bool stands, WhyNot reason) noexcept {
    return stands ? static_cast<std::uint8_t>(reason) : std::uint8_t{0};
}

// Whether the r-th request's ceiling is broken at an instance; unknown values break none.
bool is_above(std::span<const double> values, std::size_t at, std::span<const double> ceilings,
              std::size_t r) noexcept {
    if (values.empty() || ceilings.empty()) return false;
    return !std::isnan(values[at]) && !is_within(values[at], ceilings[r]);
}

}  // namespace

void why_not(const InstanceView& view, const AssignBatch& batch, const AssignPrices& prices,
             std::size_t models, std::span<std::uint8_t> to) {
    const auto& from = view.columns;
    const std::size_t count = view.size();
    batch.check_filters(models, count);
    prices.check(batch.requests(), count);
    for (std::size_t r = 0; r < batch.requests(); ++r) {
        const double total = static_cast<double>(batch.prompt_tokens[r]) + batch.max_tokens[r];
        const std::uint32_t needs = batch.needs.empty() ? 0U : batch.needs[r];
        const auto* may = batch.models.empty() ? nullptr : batch.models.data() + r * models;
        const auto* on = batch.instances.empty() ? nullptr : batch.instances.data() + r * count;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t at = r * count + i;
            const auto model = static_cast<std::uint32_t>(from.model[i]);
            const bool known = may == nullptr || model < models;
            int found = 0;
            found |= bit(!is_open(1, from.draining[i]), WhyNot::draining);
            found |= bit(!is_open(from.healthy[i], 0), WhyNot::unhealthy);
            found |= bit(!has_room(from.context_window[i], total), WhyNot::no_room);
            found |= bit(!has_capabilities(from.capabilities[i], needs), WhyNot::lacks_capability);
            found |= bit(!known || !is_allowed(may, model), WhyNot::model_not_allowed);
            found |= bit(!is_allowed(on, i), WhyNot::excluded);
            found |= bit(is_above(prices.usd, at, batch.max_usd, r), WhyNot::above_max_usd);
            found |= bit(is_above(prices.seconds, at, batch.max_seconds, r),
                         WhyNot::above_max_seconds);
            to[at] = static_cast<std::uint8_t>(found);
        }
    }
}

}  // namespace trcore
