// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// The memory of a PeerRing: control block, one header word per cell, the cells. No pointers: the
// same bytes may be mapped at different addresses in different processes.
#pragma once

#include <bit>
#include <memory>
#include <stdexcept>
#include <string>

#include "trcore/process.hpp"
#include "trcore/wakeup.hpp"

namespace trcore {

inline constexpr std::size_t kCellBytes = 64;
inline constexpr std::size_t kLengthBytes = 4;  // a record's byte count, before its bytes
inline constexpr std::size_t kProducerSlots = 64;
inline constexpr std::uint64_t kMinCells = 16;
inline constexpr std::uint64_t kMaxCells = 1ULL << 23;  // 512 MiB; lengths have 24 bits

enum class CellState : std::uint8_t { empty = 0, reserved = 1, ready = 2, padding = 3 };

// A header word: lap (32) | length in cells (24) | producer slot (6) | state (2).
struct CellWord {
    std::uint32_t lap = 0;
    std::uint32_t cells = 0;
    std::uint32_t slot = 0;
    CellState state = CellState::empty;

    [[nodiscard]] constexpr std::uint64_t pack() const noexcept {
        return (static_cast<std::uint64_t>(lap) << 32U) | (static_cast<std::uint64_t>(cells) << 8U) |
               (static_cast<std::uint64_t>(slot) << 2U) | static_cast<std::uint64_t>(state);
    }
    [[nodiscard]] static constexpr CellWord unpack(std::uint64_t word) noexcept {
        return {static_cast<std::uint32_t>(word >> 32U),
                static_cast<std::uint32_t>((word >> 8U) & 0xFFFFFFU),
                static_cast<std::uint32_t>((word >> 2U) & 0x3FU),
                static_cast<CellState>(word & 3U)};
    }
    [[nodiscard]] static constexpr std::uint64_t free_in(std::uint32_t lap) noexcept {
        return CellWord{lap, 0, 0, CellState::empty}.pack();
    }
};

// Who writes each word is told in peer_ring.hpp.
struct alignas(kCacheLine) RingControl {
    std::uint64_t cells = 0;  // a power of two; constant once the ring is made

    alignas(kCacheLine) std::atomic<std::uint64_t> tail{0};  // next position to reserve
    alignas(kCacheLine) std::atomic<std::uint64_t> head{0};  // next position to read
    alignas(kCacheLine) Wakeup data;                         // the consumer sleeps here
    alignas(kCacheLine) Wakeup room;                         // producers sleep here
    alignas(kCacheLine) std::atomic<std::uint64_t> abandoned{0};
    std::atomic<std::uint32_t> wake_requests{0};             // 1: wake() was called
    std::atomic<std::uint32_t> consumer_closed{0};
    alignas(kCacheLine) std::atomic<ProcessId> producers[kProducerSlots]{};
};

// Cells for a wish in bytes: rounded up to a power of two.
[[nodiscard]] inline std::uint64_t cells_for(std::uint64_t capacity_bytes) {
    if (capacity_bytes == 0 || capacity_bytes > kMaxCells * kCellBytes) {
        throw std::invalid_argument("capacity_bytes: must be 1 to " +
                                    std::to_string(kMaxCells * kCellBytes) + ", not " +
                                    std::to_string(capacity_bytes));
    }
    const std::uint64_t wanted = (capacity_bytes + kCellBytes - 1) / kCellBytes;
    return std::bit_ceil(wanted < kMinCells ? kMinCells : wanted);
}

[[nodiscard]] constexpr std::size_t ring_bytes(std::uint64_t cells) noexcept {
    return sizeof(RingControl) +
           static_cast<std::size_t>(cells) * (sizeof(std::atomic<std::uint64_t>) + kCellBytes);
}

// The three parts of a ring in memory. `at` is aligned to kCacheLine.
struct RingParts {
    RingControl* control = nullptr;
    std::atomic<std::uint64_t>* words = nullptr;
    std::byte* cells = nullptr;

    // Makes an empty ring in ring_bytes(cells) bytes that nobody else sees yet.
    static RingParts format(void* at, std::uint64_t cells) {
        auto* control = std::construct_at(static_cast<RingControl*>(at));
        control->cells = cells;
        RingParts parts = view(at);
        for (std::uint64_t i = 0; i < cells; ++i) {
            std::construct_at(parts.words + i, CellWord::free_in(0));
        }
        return parts;
    }

    // Finds the parts of a ring that format() made, perhaps in another process.
    static RingParts view(void* at) noexcept {
        auto* base = static_cast<std::byte*>(at);
        auto* control = reinterpret_cast<RingControl*>(base);
        auto* words = reinterpret_cast<std::atomic<std::uint64_t>*>(base + sizeof(RingControl));
        return {control, words, reinterpret_cast<std::byte*>(words + control->cells)};
    }
};

}  // namespace trcore
