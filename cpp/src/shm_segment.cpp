// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/shm_segment.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <sys/mman.h>

namespace trcore {
namespace {

constexpr std::string_view kPrefix = "trcore-";
constexpr std::size_t kMaxName = 64;

[[noreturn]] void throw_errno(int error, const std::string& what) {
    throw std::system_error(error, std::generic_category(), what);
}

// Names that this process created and still has to unlink, for an exit without destructors of
// the Python objects. A forked child inherits the list but not the duty.
class OwnedNames {
public:
    static OwnedNames& instance() {
        static OwnedNames names;  // destroyed by exit()
        return names;
    }
    ~OwnedNames() {
        for (const auto& [pid, name] : names_) {
            if (pid == ::getpid()) ::shm_unlink(name.c_str());
        }
    }
    void add(const std::string& name) {
        const std::lock_guard lock(mutex_);
        names_.emplace(::getpid(), name);
    }
    bool remove(const std::string& name) {
        const std::lock_guard lock(mutex_);
        return names_.erase({::getpid(), name}) != 0;
    }

private:
    std::mutex mutex_;
    std::set<std::pair<pid_t, std::string>> names_;
};

void check_name(std::string_view name) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '.' || c == '-';
    };
    if (name.empty() || name.size() > kMaxName || !std::all_of(name.begin(), name.end(), allowed)) {
        throw std::invalid_argument("name: must be 1 to 64 of A-Z a-z 0-9 _ . -, not '" +
                                    std::string(name) + "'");
    }
}

struct NameParts {
    std::uint64_t uid = 0, pid = 0, start = 0, ns = 0;
};

// Splits "trcore-<uid>-<pid>-<start>-<ns>-<name>".
bool parse(std::string_view file, NameParts& parts) {
    if (!file.starts_with(kPrefix)) return false;
    file.remove_prefix(kPrefix.size());
    for (std::uint64_t* number : {&parts.uid, &parts.pid, &parts.start, &parts.ns}) {
        const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), *number);
        if (error != std::errc{} || end == file.data() + file.size() || *end != '-') return false;
        file.remove_prefix(static_cast<std::size_t>(end - file.data()) + 1);
    }
    return !file.empty();
}

struct Descriptor {
    int fd;
    ~Descriptor() { if (fd >= 0) ::close(fd); }
};

// 0, or the error. Reserves the memory now: else a full /dev/shm would be a SIGBUS later.
int set_size(int fd, std::size_t bytes) noexcept {
#if defined(__linux__)
    return ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
#else
    return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
#endif
}

}  // namespace

ShmSegment ShmSegment::create(std::string_view name, std::size_t payload_bytes) {
    check_name(name);
    remove_stale();
    const ProcessId self = this_process();
    const std::uint64_t ns = trcore::pid_namespace();
    const std::string full = "/" + std::string(kPrefix) + std::to_string(::geteuid()) + "-" +
                             std::to_string(pid_of(self)) + "-" + std::to_string(start_of(self)) +
                             "-" + std::to_string(ns) + "-" + std::string(name);
    const Descriptor file{::shm_open(full.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)};
    if (file.fd < 0) {
        if (errno == EEXIST) {
            throw SegmentExists("name: this process already has a segment '" + std::string(name) +
                                "' (" + full + ")");
        }
        throw_errno(errno, "shm_open " + full);
    }
    OwnedNames::instance().add(full);
    const std::size_t bytes = sizeof(SegmentHeader) + payload_bytes;
    int error = set_size(file.fd, bytes);
    void* base = MAP_FAILED;
    if (error == 0) {
        base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
        if (base == MAP_FAILED) error = errno;
    }
    if (error != 0) {
        ::shm_unlink(full.c_str());
        OwnedNames::instance().remove(full);
        throw_errno(error, "no " + std::to_string(bytes) + " bytes of shared memory for " + full);
    }
    auto* header = std::construct_at(static_cast<SegmentHeader*>(base));
    header->header_bytes = sizeof(SegmentHeader);
    header->segment_bytes = bytes;
    header->creator = self;
    header->pid_namespace = ns;
    return {full, base, bytes, true};
}

ShmSegment ShmSegment::attach(const std::string& full_name) {
    const std::string_view bare = std::string_view(full_name).substr(full_name.starts_with('/'));
    NameParts parts;
    if (!parse(bare, parts) || bare.find('/') != std::string_view::npos) {
        throw std::invalid_argument("name: '" + full_name +
                                    "' is no segment name of trcore; pass the creator's `name`");
    }
    const std::string path = "/" + std::string(bare);
    const Descriptor file{::shm_open(path.c_str(), O_RDWR, 0)};
    if (file.fd < 0) {
        if (errno == ENOENT) throw SegmentMissing("name: no segment " + path);
        throw_errno(errno, "shm_open " + path);
    }
    struct stat status {};
    if (::fstat(file.fd, &status) != 0) throw_errno(errno, "fstat " + path);
    const auto bytes = static_cast<std::size_t>(status.st_size);
    if (bytes < sizeof(SegmentHeader)) {
        throw SegmentMismatch("name: " + path + " is too short for a segment of trcore");
    }
    void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    if (base == MAP_FAILED) throw_errno(errno, "mmap " + path);
    ShmSegment segment(path, base, bytes, false);  // unmaps if a check throws
    const auto& header = *static_cast<SegmentHeader*>(base);
    // acquire, pairs with announce().
    if (header.magic.load(std::memory_order_acquire) != SegmentHeader::kMagic) {
        throw SegmentMismatch("name: " + path + " wasn't made by trcore, or isn't ready yet");
    }
    if (header.layout_version != SegmentHeader::kLayoutVersion ||
        header.header_bytes != sizeof(SegmentHeader)) {
        throw SegmentMismatch("name: " + path + " has layout version " +
                              std::to_string(header.layout_version) + ", this trcore reads " +
                              std::to_string(SegmentHeader::kLayoutVersion) +
                              ": install the same trcore on both sides");
    }
    if (header.segment_bytes != bytes) {
        throw SegmentMismatch("name: " + path + " says " + std::to_string(header.segment_bytes) +
                              " bytes and has " + std::to_string(bytes));
    }
    if (header.pid_namespace != trcore::pid_namespace()) {
        throw SegmentOrphaned("name: " + path + " was made in another pid namespace; run both "
                              "processes in one container, or use another transport");
    }
    if (!is_alive(header.creator)) {
        throw SegmentOrphaned("name: the process that made " + path + " is dead");
    }
    return segment;
}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : name_(std::move(other.name_)), base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_), owner_(std::exchange(other.owner_, false)) {}

ShmSegment::~ShmSegment() {
    unlink();
    if (base_ != nullptr) ::munmap(base_, bytes_);
}

void ShmSegment::announce() noexcept {
    // release, pairs with the acquire load in attach().
    static_cast<SegmentHeader*>(base_)->magic.store(SegmentHeader::kMagic,
                                                    std::memory_order_release);
}

void ShmSegment::unlink() noexcept {
    if (owner_ && OwnedNames::instance().remove(name_)) ::shm_unlink(name_.c_str());
}

std::vector<std::string> ShmSegment::remove_stale() {
    std::vector<std::string> removed;
#if defined(__linux__)
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev/shm"), &::closedir);
    const std::uint64_t ns = trcore::pid_namespace();
    while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
        const std::string_view file = entry->d_name;
        NameParts parts;
        if (!parse(file, parts) || parts.uid != ::geteuid() || parts.ns != ns || parts.pid == 0 ||
            parts.pid >= (1ULL << kPidBits)) {
            continue;
        }
        if (is_alive(make_process_id(static_cast<std::int64_t>(parts.pid), parts.start))) continue;
        const std::string path = "/" + std::string(file);
        struct stat status {};
        const Descriptor fd{::shm_open(path.c_str(), O_RDONLY, 0)};
        if (fd.fd < 0 || ::fstat(fd.fd, &status) != 0 || status.st_uid != ::geteuid()) continue;
        if (::shm_unlink(path.c_str()) == 0) removed.push_back(path);
    }
#endif
    return removed;
}

}  // namespace trcore
