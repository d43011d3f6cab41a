// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// The stationary distribution of a small dense chain by elimination of its states (Grassmann,
// Taksar, Heyman 1985): it subtracts nothing, so that it is right to the last digits however slowly
// the chain mixes. Internal.
#pragma once

#include <span>

namespace trcore {

// `transitions`: [n, n], row by row, irreducible; overwritten. `distribution`: [n], sums to 1.
void stationary_by_elimination(std::span<double> transitions, std::span<double> distribution);

}  // namespace trcore
