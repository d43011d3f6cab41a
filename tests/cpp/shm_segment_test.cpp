// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/shm_segment.hpp"

#include <algorithm>

#include <sys/mman.h>
#include <sys/wait.h>

#include "check.hpp"

using trcore::ShmSegment;

TEST(is_private_and_unlinked_by_its_owner) {
    std::string name;
    {
        ShmSegment segment = ShmSegment::create("test-a", 100);
        segment.announce();
        name = segment.full_name();
        const int fd = ::shm_open(name.c_str(), O_RDWR, 0);
        struct stat status {};
        CHECK(fd >= 0 && ::fstat(fd, &status) == 0 && (status.st_mode & 0777) == 0600);
        ::close(fd);
        ShmSegment other = ShmSegment::attach(name);
        static_cast<char*>(segment.payload())[99] = 'x';
        CHECK(static_cast<char*>(other.payload())[99] == 'x');
        CHECK_THROWS(trcore::SegmentExists, "test-a", ShmSegment::create("test-a", 100));
    }
    CHECK_THROWS(trcore::SegmentMissing, name, ShmSegment::attach(name));
}

TEST(attach_refuses_what_it_cannot_read) {
    ShmSegment segment = ShmSegment::create("test-b", 100);
    CHECK_THROWS(trcore::SegmentMismatch, "isn't ready", ShmSegment::attach(segment.full_name()));
    segment.announce();
    auto* header = reinterpret_cast<trcore::SegmentHeader*>(
        static_cast<std::byte*>(segment.payload()) - sizeof(trcore::SegmentHeader));
    header->layout_version = 999;
    CHECK_THROWS(trcore::SegmentMismatch, "999", ShmSegment::attach(segment.full_name()));
    header->layout_version = trcore::SegmentHeader::kLayoutVersion;
    header->segment_bytes = 7;
    CHECK_THROWS(trcore::SegmentMismatch, "says 7", ShmSegment::attach(segment.full_name()));
    CHECK_THROWS(std::invalid_argument, "name", ShmSegment::attach("/psm_123"));
    CHECK_THROWS(std::invalid_argument, "name", ShmSegment::create("a/b", 1));
    CHECK_THROWS(std::invalid_argument, "name", ShmSegment::create("", 1));
}

TEST(leftovers_of_the_dead_are_removed_and_others_stay) {
    const ShmSegment mine = ShmSegment::create("test-c", 10);
    int channel[2];
    CHECK(::pipe(channel) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const ShmSegment theirs = ShmSegment::create("test-d", 10);
        const auto length = theirs.full_name().size();
        if (::write(channel[1], theirs.full_name().data(), length) == static_cast<ssize_t>(length)) {
            ::raise(SIGKILL);
        }
        ::_exit(1);
    }
    char text[200] = {};
    CHECK(::read(channel[0], text, sizeof text - 1) > 0);
    CHECK(::waitpid(child, nullptr, 0) == child);
    const auto removed = ShmSegment::remove_stale();
    CHECK(std::find(removed.begin(), removed.end(), text) != removed.end());
    CHECK(std::find(removed.begin(), removed.end(), mine.full_name()) == removed.end());
    CHECK(ShmSegment::remove_stale().empty());
}

int main() { return check::run_all_tests(); }
