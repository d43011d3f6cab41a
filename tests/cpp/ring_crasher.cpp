// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// ring_crasher NAME POINT: attaches to a ring, pushes "before", and is killed by SIGKILL while it
// pushes a second record, at POINT: after_reserve or before_publish.
#include <string>

#include "trcore/ring_owner.hpp"

namespace {
std::string g_point;
}

struct Killing : trcore::DefaultRingPolicy {
    static void after_reserve() noexcept { if (g_point == "after_reserve") ::raise(SIGKILL); }
    static void before_publish() noexcept { if (g_point == "before_publish") ::raise(SIGKILL); }
};

int main(int argc, char** argv) {
    if (argc != 3) return 64;
    const auto segment = trcore::ShmSegment::attach(argv[1]);
    trcore::BasicPeerRing<Killing> ring(trcore::RingParts::view(segment.payload()));
    ring.join_as_producer(trcore::this_process());
    const std::string text = "before";
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    if (!ring.push(bytes)) return 1;
    g_point = argv[2];
    return ring.push(bytes) ? 2 : 3;  // never reached
}
