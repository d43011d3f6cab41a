// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// RingOwner: a PeerRing together with its memory, on the heap or in shared memory.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "trcore/peer_ring.hpp"
#include "trcore/shm_segment.hpp"

namespace trcore {

// The consumer closed the ring, or its process is dead: no record will be read any more.
struct ConsumerGone : std::runtime_error { using std::runtime_error::runtime_error; };

class RingOwner {
public:
    enum class Role { both, producer };

    // Throw std::invalid_argument (capacity_bytes, name), and what ShmSegment throws.
    static std::shared_ptr<RingOwner> heap(std::uint64_t capacity_bytes);
    static std::shared_ptr<RingOwner> create(std::string_view name, std::uint64_t capacity_bytes);
    static std::shared_ptr<RingOwner> attach(const std::string& full_name);

    RingOwner(const RingOwner&) = delete;
    RingOwner& operator=(const RingOwner&) = delete;
    ~RingOwner();

    // The ring, for reading. Throws std::logic_error in a producer or a forked child.
    PeerRing& consumer();
    // The ring, for pushing; the first call takes a producer slot. Throws ConsumerGone,
    // std::logic_error in a forked child, std::runtime_error if there is no slot.
    PeerRing& producer();
    // The ring, for capacity, waiting for room, wake() and stop().
    PeerRing& ring() noexcept { return *ring_; }

    // A system call: for those who have waited in vain already.
    [[nodiscard]] bool consumer_is_alive() const noexcept;

    // Ends all waits here, tells the producers if this is the consumer, and takes the name away.
    // The memory goes with the object.
    void close() noexcept;

    [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
    RingOwner(Role role, std::string name) : role_(role), name_(std::move(name)) {}
    void check_process() const;

    struct Free { void operator()(void* memory) const noexcept; };

    Role role_;
    std::string name_;
    ProcessId self_ = this_process();
    std::uint64_t fork_count_ = forks();
    std::unique_ptr<void, Free> memory_;
    std::optional<ShmSegment> segment_;
    RingParts parts_;
    std::optional<PeerRing> ring_;
    std::once_flag joining_;
    std::atomic<bool> joined_{false};

    // How often this process is a fork of a fork; counted by a pthread_atfork handler.
    static std::uint64_t forks() noexcept;
};

}  // namespace trcore
