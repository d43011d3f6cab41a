// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for rings in tests, and records whose contents can be checked.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>

#include "trcore/peer_ring.hpp"

struct HeapRing {
    explicit HeapRing(std::uint64_t bytes)
        : cells(trcore::cells_for(bytes)),
          memory(::operator new(trcore::ring_bytes(cells), std::align_val_t{trcore::kCacheLine})),
          parts(trcore::RingParts::format(memory, cells)) {}
    HeapRing(const HeapRing&) = delete;
    HeapRing& operator=(const HeapRing&) = delete;
    ~HeapRing() { ::operator delete(memory, std::align_val_t{trcore::kCacheLine}); }
    std::uint64_t cells;
    void* memory;
    trcore::RingParts parts;
};

// Shared with children of fork().
struct SharedRing {
    explicit SharedRing(std::uint64_t bytes)
        : cells(trcore::cells_for(bytes)), size(trcore::ring_bytes(cells)),
          memory(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
          parts(trcore::RingParts::format(memory, cells)) {}
    SharedRing(const SharedRing&) = delete;
    SharedRing& operator=(const SharedRing&) = delete;
    ~SharedRing() { ::munmap(memory, size); }
    std::uint64_t cells;
    std::size_t size;
    void* memory;
    trcore::RingParts parts;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

template <class Ring>
std::vector<std::string> drain(Ring& ring, std::size_t most = 0) {
    std::vector<std::string> texts;
    ring.drain(most, [&texts](const trcore::RecordView& view) {
        std::string text(view.size(), '\0');
        view.copy_to(text.data());
        texts.push_back(std::move(text));
    });
    return texts;
}
