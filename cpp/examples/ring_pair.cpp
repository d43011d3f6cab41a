// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Two threads and a ring on the heap, with the headers alone:
//   c++ -std=c++20 -pthread -I "$(python -c 'import trcore; print(trcore.get_include())')" ring_pair.cpp
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "trcore/peer_ring.hpp"

int main() {
    const std::uint64_t cells = trcore::cells_for(4096);
    const std::size_t align = trcore::kCacheLine;
    const auto memory = std::make_unique<std::byte[]>(trcore::ring_bytes(cells) + align);
    void* start = memory.get();
    std::size_t room = trcore::ring_bytes(cells) + align;
    start = std::align(align, trcore::ring_bytes(cells), start, room);

    trcore::PeerRing ring(trcore::RingParts::format(start, cells));
    ring.join_as_producer(trcore::this_process());

    constexpr int kRecords = 10'000;
    std::thread producer([&ring] {
        for (int i = 0; i < kRecords; ++i) {
            const std::string text = "record " + std::to_string(i);
            const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
            while (!ring.push(bytes)) {  // full: wait for the consumer
                static_cast<void>(ring.wait_for_room(bytes.size(), std::chrono::seconds(1)));
            }
        }
    });

    int next = 0;
    bool in_order = true;
    while (next < kRecords) {
        static_cast<void>(ring.wait(std::chrono::seconds(1)));
        ring.drain(0, [&next, &in_order](const trcore::RecordView& record) {
            std::string text(record.size(), '\0');
            record.copy_to(text.data());
            in_order = in_order && text == "record " + std::to_string(next++);
        });
    }
    producer.join();
    std::printf("%d records, %s\n", next, in_order ? "in order" : "OUT OF ORDER");
    return in_order ? 0 : 1;
}
