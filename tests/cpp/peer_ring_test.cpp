// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "check.hpp"
#include "ring_memory.hpp"

using namespace std::chrono_literals;

TEST(header_words_keep_their_fields) {
    const trcore::CellWord word{0xFFFFFFFFU, 0xABCDEFU, 63, trcore::CellState::padding};
    const auto back = trcore::CellWord::unpack(word.pack());
    CHECK(back.lap == word.lap && back.cells == word.cells && back.slot == 63 &&
          back.state == trcore::CellState::padding);
}

TEST(records_of_every_length_come_back_through_many_laps) {
    HeapRing memory(1024);
    trcore::PeerRing ring(memory.parts);
    ring.join_as_producer(trcore::this_process());
    for (int lap = 0; lap < 5; ++lap) {
        for (std::size_t length = 0; length <= ring.max_record_bytes(); ++length) {
            std::string text(length, '\0');
            for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i * 7 + length);
            CHECK(ring.push(bytes_of(text)));
            CHECK(drain(ring) == std::vector{text});
        }
    }
}

TEST(full_is_said_and_nothing_is_lost) {
    HeapRing memory(1024);  // 16 cells
    trcore::PeerRing ring(memory.parts);
    ring.join_as_producer(trcore::this_process());
    const std::string two_cells(100, 'a');
    for (int i = 0; i < 8; ++i) CHECK(ring.push(bytes_of(two_cells)));
    CHECK(!ring.push(bytes_of("")));
    CHECK(!ring.wait_for_room(0, 1ms));
    CHECK(drain(ring, 1).size() == 1);
    CHECK(ring.wait_for_room(124, 0ns));
    CHECK(!ring.push(bytes_of(std::string(125, 'b'))));  // three cells
    CHECK(ring.push(bytes_of(std::string(124, 'b'))));   // two
    CHECK(drain(ring).size() == 8);
    CHECK_THROWS(std::invalid_argument, "record", ring.push(bytes_of(std::string(1021, 'c'))));
    CHECK(ring.push(bytes_of(std::string(1020, 'c'))));
}

TEST(a_throwing_sink_keeps_the_record) {
    HeapRing memory(1024);
    trcore::PeerRing ring(memory.parts);
    ring.join_as_producer(trcore::this_process());
    CHECK(ring.push(bytes_of("a")) && ring.push(bytes_of("b")));
    int seen = 0;
    CHECK_THROWS(std::runtime_error, "no", ring.drain(0, [&seen](const trcore::RecordView&) {
        if (++seen == 2) throw std::runtime_error("no");
    }));
    CHECK(drain(ring) == std::vector<std::string>{"b"});
}

TEST(wake_and_stop_end_waits) {
    HeapRing memory(1024);
    trcore::PeerRing ring(memory.parts);
    CHECK(!ring.wait(0ns));
    ring.wake();
    CHECK(ring.wait(0ns));
    CHECK(!ring.wait(0ns));
    std::thread waiter([&ring] { CHECK(ring.wait(1h)); });
    ring.wake();
    waiter.join();
    std::thread stopped([&ring] { CHECK(!ring.wait(1h)); });
    ring.stop();
    stopped.join();
}

// The producer that calls `pause` stops inside push() until released.
struct Pausing {
    static constexpr std::memory_order kPublishOrder = std::memory_order_release;
    static inline thread_local bool in_reserve = false, in_publish = false;
    static inline std::atomic<bool> arrived{false}, go{false};
    static void stop() noexcept {
        arrived.store(true, std::memory_order_release);
        while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
    }
    static void after_reserve() noexcept { if (in_reserve) stop(); }
    static void before_publish() noexcept { if (in_publish) stop(); }
};

void others_pass_a_paused_producer(bool before_tail_moved) {
    HeapRing memory(1024);
    trcore::BasicPeerRing<Pausing> ring(memory.parts);
    ring.join_as_producer(trcore::this_process());
    for (int i = 0; i < 15; ++i) {  // the paused record is to wrap
        CHECK(ring.push(bytes_of("x")));
        CHECK(drain(ring).size() == 1);
    }
    Pausing::arrived = false;
    Pausing::go = false;
    std::thread paused([&ring, before_tail_moved] {
        (before_tail_moved ? Pausing::in_reserve : Pausing::in_publish) = true;
        CHECK(ring.push(bytes_of(std::string(150, 'p'))));  // three cells
    });
    while (!Pausing::arrived.load(std::memory_order_acquire)) std::this_thread::yield();
    // Tail stands where it was only if the pause came before it moved; the push helps.
    CHECK((memory.parts.control->tail.load() == 15) == before_tail_moved);
    for (int i = 0; i < 13; ++i) CHECK(ring.push(bytes_of(std::to_string(i))));
    CHECK(!ring.push(bytes_of("full")));
    CHECK(drain(ring).empty());  // first in, first out: all wait for the first
    CHECK(!ring.wait(3ms));      // and its owner lives, so it isn't given up
    Pausing::go.store(true, std::memory_order_release);
    paused.join();
    CHECK(ring.wait(0ns));
    const auto all = drain(ring);
    CHECK(all.size() == 14 && all[0] == std::string(150, 'p') && all[13] == "12");
    CHECK(ring.abandoned() == 0);
}
TEST(others_pass_a_producer_paused_before_tail_moved) { others_pass_a_paused_producer(true); }
TEST(others_pass_a_producer_paused_before_it_publishes) { others_pass_a_paused_producer(false); }

TEST(there_are_64_slots_and_those_given_back_serve_again) {
    HeapRing memory(1024);
    std::vector<std::unique_ptr<trcore::PeerRing>> rings;
    for (std::size_t i = 0; i < trcore::kProducerSlots; ++i) {
        rings.push_back(std::make_unique<trcore::PeerRing>(memory.parts));
        rings.back()->join_as_producer(trcore::this_process());
    }
    trcore::PeerRing late(memory.parts);
    CHECK_THROWS(std::runtime_error, "64", late.join_as_producer(trcore::this_process()));
    rings[7]->leave_as_producer();
    late.join_as_producer(trcore::this_process());
    CHECK(late.push(bytes_of("late")));
    CHECK(drain(late) == std::vector<std::string>{"late"});
}

int main() { return check::run_all_tests(); }
