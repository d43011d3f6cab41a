// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Producers against one consumer on a small ring: every byte, each producer's order, nothing lost
// or doubled. Built a second time with the publishing store relaxed, TSAN must object.
#include <thread>

#include "check.hpp"
#include "ring_memory.hpp"

using namespace std::chrono_literals;

struct Policy : trcore::DefaultRingPolicy {
#ifdef TRCORE_RELAXED_PUBLISH
    static constexpr std::memory_order kPublishOrder = std::memory_order_relaxed;
#endif
};
using Ring = trcore::BasicPeerRing<Policy>;

constexpr std::uint32_t kProducers = 4;
constexpr std::uint32_t kRecords = 15'000;  // each

// Producer, number, then a pattern of 0 to 299 bytes that follows from both.
std::vector<std::byte> make_record(std::uint32_t producer, std::uint32_t number) {
    const std::size_t tail = (number * 31 + producer * 17) % 300;
    std::vector<std::byte> record(8 + tail);
    std::memcpy(record.data(), &producer, 4);
    std::memcpy(record.data() + 4, &number, 4);
    for (std::size_t i = 0; i < tail; ++i) {
        record[8 + i] = static_cast<std::byte>(i * 13 + number + producer * 101);
    }
    return record;
}

// With `polling` the consumer only drains: then the publishing store alone orders the contents
// (a wait would order them as well, through the Wakeup).
void stress(bool polling) {
    HeapRing memory(2048);
    Ring ring(memory.parts);
    ring.join_as_producer(trcore::this_process());
    std::vector<std::thread> producers;
    for (std::uint32_t p = 0; p < kProducers; ++p) {
        producers.emplace_back([&ring, p, polling] {
            for (std::uint32_t n = 0; n < kRecords; ++n) {
                const auto record = make_record(p, n);
                for (;;) {
                    if (polling ? ring.push_quietly(record) : ring.push(record)) break;
                    if (polling) std::this_thread::yield();
                    else static_cast<void>(ring.wait_for_room(record.size(), 10s));
                }
            }
        });
    }
    std::vector<std::uint32_t> next(kProducers, 0);
    std::vector<std::byte> record;
    for (std::uint64_t total = 0; total < std::uint64_t{kProducers} * kRecords;) {
        if (!polling) CHECK(ring.wait(30s));
        const std::size_t got = ring.drain(0, [&](const trcore::RecordView& view) {
            record.resize(view.size());
            view.copy_to(record.data());
            std::uint32_t producer = 0;
            CHECK(record.size() >= 8);
            std::memcpy(&producer, record.data(), 4);
            CHECK(producer < kProducers);
            CHECK(record == make_record(producer, next[producer]));
            ++next[producer];
        });
        total += got;
        if (polling && got == 0) std::this_thread::yield();
    }
    for (auto& thread : producers) thread.join();
    CHECK(drain(ring).empty());
    CHECK(ring.abandoned() == 0);
}

TEST(contents_and_order_when_polling) { stress(true); }
TEST(contents_and_order_when_waiting) { stress(false); }

int main() { return check::run_all_tests(); }
