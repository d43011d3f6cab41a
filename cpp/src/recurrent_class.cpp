// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "recurrent_class.hpp"

#include <algorithm>
#include <string>

#include "trcore/dtmc.hpp"

namespace trcore {
namespace {

constexpr std::uint32_t kFinished = ~0U;  // in found_: belongs to a finished component
constexpr std::uint32_t kRecurrent = ~0U;  // in low_, once the search is over

}  // namespace

// Tarjan's strongly connected components. They finish in an order in which a component that no
// transition leaves, a closed one, is known by having none to those finished before it.
std::span<const std::uint32_t> RecurrentClass::find(const ChainGraph& graph) {
    found_.assign(graph.size(), 0);
    low_.assign(graph.size(), 0);
    leaks_.assign(graph.size(), 0);
    postorder_.clear();
    count_ = 0;
    closed_ = 0;
    enter(graph, 0);
    while (!path_.empty()) {
        auto& [state, edge] = path_.back();
        if (edge == graph.first[state + 1]) {
            leave(state);
            continue;
        }
        const std::uint32_t to = graph.to[edge++];
        if (found_[to] == 0) {
            enter(graph, to);
        } else if (found_[to] == kFinished) {
            leaks_[state] = 1;
        } else {
            low_[state] = std::min(low_[state], found_[to]);
        }
    }
    if (closed_ != 1) {
        throw ReducibleChain(
            "P, L: the chain has " + std::to_string(closed_) +
            " recurrent classes. Requests that always move on together keep their distance in time, "
            "which depends on chance at first: there is no single long run");
    }
    for (const std::uint32_t state : class_) low_[state] = kRecurrent;
    order_.clear();
    for (auto state = postorder_.rbegin(); state != postorder_.rend(); ++state) {
        if (low_[*state] == kRecurrent) order_.push_back(*state);
    }
    return order_;
}

void RecurrentClass::enter(const ChainGraph& graph, std::uint32_t state) {
    found_[state] = low_[state] = ++count_;
    open_.push_back(state);
    path_.push_back({state, graph.first[state]});
}

void RecurrentClass::leave(std::uint32_t state) {
    path_.pop_back();
    postorder_.push_back(state);
    if (low_[state] != found_[state]) {  // part of its parent's component: the root has a number
        const std::uint32_t parent = path_.back().state;
        low_[parent] = std::min(low_[parent], low_[state]);
        return;
    }
    bool leaks = false;
    std::size_t at = open_.size();
    do {
        --at;
        leaks = leaks || leaks_[open_[at]] != 0;
        found_[open_[at]] = kFinished;
    } while (open_[at] != state);
    if (!leaks) {
        ++closed_;
        class_.assign(open_.begin() + static_cast<std::ptrdiff_t>(at), open_.end());
    }
    open_.resize(at);
    if (!path_.empty()) leaks_[path_.back().state] = 1;
}

}  // namespace trcore
