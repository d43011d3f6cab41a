// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// RecurrentClass: the states that a ChainGraph keeps coming back to, in an order that suits sweeps.
// Internal.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chain_graph.hpp"

namespace trcore {

class RecurrentClass {
public:
    // The recurrent states in reverse postorder of a depth-first search, so that a transition leads
    // back only where a cycle closes. Good until the next call, which reuses its memory. Throws
    // ReducibleChain unless there is exactly one closed class.
    std::span<const std::uint32_t> find(const ChainGraph& graph);

private:
    struct Visit { std::uint32_t state, edge; };

    void enter(const ChainGraph& graph, std::uint32_t state);
    void leave(std::uint32_t state);

    std::vector<Visit> path_;
    std::vector<std::uint32_t> open_;           // found, in no finished component yet
    std::vector<std::uint32_t> found_, low_;    // Tarjan's numbers, by state
    std::vector<std::uint8_t> leaks_;           // by state: leads to a finished component
    std::vector<std::uint32_t> postorder_, class_, order_;
    std::uint32_t count_ = 0;
    std::size_t closed_ = 0;
};

}  // namespace trcore
