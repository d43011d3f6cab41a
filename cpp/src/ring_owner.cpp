// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/ring_owner.hpp"

#include <new>

#include <pthread.h>

namespace trcore {
namespace {

// Written by the only thread of a new child, before anything else runs there: relaxed.
std::atomic<std::uint64_t> g_forks{0};

}  // namespace

std::uint64_t RingOwner::forks() noexcept {
    static const int registered = ::pthread_atfork(
        nullptr, nullptr, [] { g_forks.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(registered);
    return g_forks.load(std::memory_order_relaxed);
}

void RingOwner::Free::operator()(void* memory) const noexcept {
    ::operator delete(memory, std::align_val_t{kCacheLine});
}

std::shared_ptr<RingOwner> RingOwner::heap(std::uint64_t capacity_bytes) {
    const std::uint64_t cells = cells_for(capacity_bytes);
    std::shared_ptr<RingOwner> owner(new RingOwner(Role::both, ""));
    owner->memory_.reset(::operator new(ring_bytes(cells), std::align_val_t{kCacheLine}));
    owner->parts_ = RingParts::format(owner->memory_.get(), cells);
    owner->ring_.emplace(owner->parts_);
    // Between threads of one Python process the spinner then waits for the GIL of the one that
    // pushed: a ping-pong took 12 µs one way with the spin, 8 without (2 cores).
    owner->ring_->set_spin(RingWaiter::Nanoseconds(0));
    return owner;
}

std::shared_ptr<RingOwner> RingOwner::create(std::string_view name, std::uint64_t capacity_bytes) {
    const std::uint64_t cells = cells_for(capacity_bytes);
    ShmSegment segment = ShmSegment::create(name, ring_bytes(cells));
    std::shared_ptr<RingOwner> owner(new RingOwner(Role::both, segment.full_name()));
    owner->parts_ = RingParts::format(segment.payload(), cells);
    owner->ring_.emplace(owner->parts_);
    segment.announce();
    owner->segment_.emplace(std::move(segment));
    return owner;
}

std::shared_ptr<RingOwner> RingOwner::attach(const std::string& full_name) {
    ShmSegment segment = ShmSegment::attach(full_name);
    const auto parts_if_sane = [&segment] {
        const std::uint64_t cells = static_cast<RingControl*>(segment.payload())->cells;
        if (!std::has_single_bit(cells) || cells < kMinCells || cells > kMaxCells ||
            ring_bytes(cells) != segment.payload_bytes()) {
            throw SegmentMismatch("name: " + segment.full_name() + " holds no ring");
        }
        return RingParts::view(segment.payload());
    };
    if (segment.payload_bytes() < sizeof(RingControl)) {
        throw SegmentMismatch("name: " + segment.full_name() + " holds no ring");
    }
    std::shared_ptr<RingOwner> owner(new RingOwner(Role::producer, segment.full_name()));
    owner->parts_ = parts_if_sane();
    owner->ring_.emplace(owner->parts_);
    owner->segment_.emplace(std::move(segment));
    owner->producer();  // takes its slot, or says at once that it can't
    return owner;
}

RingOwner::~RingOwner() {
    if (!ring_) return;
    close();
    // acquire, pairs with the store in producer(). A child must not give its parent's slot back.
    if (joined_.load(std::memory_order_acquire) && fork_count_ == forks()) {
        ring_->leave_as_producer();
    }
}

void RingOwner::check_process() const {
    if (fork_count_ != forks()) {
        throw std::logic_error("PeerRing: this ring was opened before fork(); in the child, "
                               "attach to it by name");
    }
}

PeerRing& RingOwner::consumer() {
    check_process();
    if (role_ == Role::producer) {
        throw std::logic_error("PeerRing: attached as a producer; only the creator reads");
    }
    return *ring_;
}

PeerRing& RingOwner::producer() {
    check_process();
    // acquire, pairs with the store in close().
    if (parts_.control->consumer_closed.load(std::memory_order_acquire) != 0) {
        throw ConsumerGone("PeerRing: the consumer closed the ring " + name_);
    }
    std::call_once(joining_, [this] {
        ring_->join_as_producer(self_);
        joined_.store(true, std::memory_order_release);  // pairs with the destructor
    });
    return *ring_;
}

bool RingOwner::consumer_is_alive() const noexcept {
    return !segment_ || is_alive(segment_->creator());
}

void RingOwner::close() noexcept {
    if (fork_count_ != forks()) return;
    if (role_ == Role::both) {
        // release, pairs with the load in producer().
        parts_.control->consumer_closed.store(1, std::memory_order_release);
    }
    ring_->stop();
    if (segment_) segment_->unlink();
}

}  // namespace trcore
