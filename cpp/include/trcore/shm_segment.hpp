// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// ShmSegment: a named piece of POSIX shared memory that belongs to one process, its creator.
//
// Names are /trcore-<uid>-<pid>-<start time>-<pid namespace>-<name>: whoever finds one can tell
// whether its creator still lives. The creator unlinks it when it closes it or exits. If it was
// killed, the next creation by the same user on this machine (or remove_stale()) does.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "trcore/process.hpp"

namespace trcore {

// No segment of that name.
struct SegmentMissing : std::runtime_error { using std::runtime_error::runtime_error; };
// There is one of that name already.
struct SegmentExists : std::runtime_error { using std::runtime_error::runtime_error; };
// Not ours, cut short, or laid out by another version of trcore.
struct SegmentMismatch : std::runtime_error { using std::runtime_error::runtime_error; };
// The creator is dead, or lives in another pid namespace (where its life can't be judged).
struct SegmentOrphaned : std::runtime_error { using std::runtime_error::runtime_error; };

// The start of every segment; constant once `magic` is written.
struct alignas(kCacheLine) SegmentHeader {
    static constexpr std::uint64_t kMagic = 0x45524F4352543031;  // "10TRCORE" read backwards
    static constexpr std::uint32_t kLayoutVersion = 1;  // raise with any change of a shared struct

    std::atomic<std::uint64_t> magic{0};  // written last (release), checked first (acquire)
    std::uint32_t layout_version = kLayoutVersion;
    std::uint32_t header_bytes = 0;
    std::uint64_t segment_bytes = 0;
    ProcessId creator = 0;
    std::uint64_t pid_namespace = 0;
};

class ShmSegment {
public:
    // `name`: 1 to 64 of A-Z a-z 0-9 _ . - . Mode 0600, memory reserved at once, zeroed. Throws
    // std::invalid_argument, SegmentExists or std::system_error. Call announce() when it's filled.
    static ShmSegment create(std::string_view name, std::size_t payload_bytes);

    // `full_name`: as full_name() of the creator said. Throws the types above.
    static ShmSegment attach(const std::string& full_name);

    ShmSegment(ShmSegment&& other) noexcept;
    ShmSegment& operator=(ShmSegment&&) = delete;
    ShmSegment(const ShmSegment&) = delete;
    ShmSegment& operator=(const ShmSegment&) = delete;
    ~ShmSegment();  // unlinks, if it is the creator's, and unmaps

    // Lets others attach. Everything written before is visible to them.
    void announce() noexcept;

    // Takes the name away at once; the memory stays until the last user unmaps it. Idempotent,
    // and without effect in other processes, forked children included.
    void unlink() noexcept;

    [[nodiscard]] void* payload() const noexcept { return static_cast<std::byte*>(base_) + sizeof(SegmentHeader); }
    [[nodiscard]] std::size_t payload_bytes() const noexcept { return bytes_ - sizeof(SegmentHeader); }
    [[nodiscard]] const std::string& full_name() const noexcept { return name_; }
    [[nodiscard]] ProcessId creator() const noexcept { return static_cast<SegmentHeader*>(base_)->creator; }

    // Unlinks this user's segments whose creator is dead; returns their names. Finds none where
    // segments can't be listed (anywhere but Linux).
    static std::vector<std::string> remove_stale();

private:
    ShmSegment(std::string name, void* base, std::size_t bytes, bool owner) noexcept
        : name_(std::move(name)), base_(base), bytes_(bytes), owner_(owner) {}

    std::string name_;
    void* base_;
    std::size_t bytes_;
    bool owner_;
};

}  // namespace trcore
