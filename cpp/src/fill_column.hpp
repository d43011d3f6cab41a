// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// One column from others, in a loop that compilers vectorise: one output, which overlaps no input,
// and a function without branches. (Several outputs in one loop would need more checks for overlap
// at run time than GCC is willing to make.) Internal.
#pragma once

#include <cstddef>

namespace trcore {

// out[i] = f(from[i]...)
template <class F, class... From>
[[gnu::always_inline]] inline void fill_column(double* __restrict out, std::size_t count, F f,
                                               const From*... from) noexcept {
    for (std::size_t i = 0; i < count; ++i) out[i] = f(from[i]...);
}

}  // namespace trcore
