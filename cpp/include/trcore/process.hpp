// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// ProcessId: names a process in one word, and says whether it still lives.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trcore/config.hpp"

namespace trcore {

// Low 24 bits: the pid (Linux allows at most 2^22). High 40 bits: its start time in clock ticks
// since boot, so that a pid taken by another process isn't mistaken for its predecessor; zero
// where there is no /proc. Never zero as a whole: zero means "nobody".
using ProcessId = std::uint64_t;

inline constexpr unsigned kPidBits = 24;

[[nodiscard]] constexpr ProcessId make_process_id(std::int64_t pid, std::uint64_t start) noexcept {
    return (start << kPidBits) | (static_cast<std::uint64_t>(pid) & ((1U << kPidBits) - 1U));
}
[[nodiscard]] constexpr pid_t pid_of(ProcessId id) noexcept {
    return static_cast<pid_t>(id & ((1U << kPidBits) - 1U));
}
[[nodiscard]] constexpr std::uint64_t start_of(ProcessId id) noexcept { return id >> kPidBits; }

struct ProcessStat {
    char state = '?';
    long threads = 0;
    std::uint64_t start = 0;  // clock ticks since boot, low 40 bits
};

enum class StatResult { ok, gone, unavailable };

// Reads /proc/PID/stat. `gone`: no such process. `unavailable`: no /proc here.
[[nodiscard]] inline StatResult read_process_stat(pid_t pid, ProcessStat& out) noexcept {
    char path[48];
    std::snprintf(path, sizeof path, "/proc/%ld/stat", static_cast<long>(pid));
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        const bool absent = errno == ENOENT;
        struct stat self {};
        const bool proc_is_mounted = ::stat("/proc/self/stat", &self) == 0;
        return absent && proc_is_mounted ? StatResult::gone : StatResult::unavailable;
    }
    char text[1024];
    const ssize_t got = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    if (got <= 0) return StatResult::gone;  // it was reaped between open and read
    text[got] = '\0';
    // "pid (name) S ppid ...": the name may hold blanks and brackets, so go from the last ')'.
    const char* field = std::strrchr(text, ')');
    if (field == nullptr || field[1] != ' ') return StatResult::unavailable;
    field += 2;
    out.state = *field;  // field 3
    for (int number = 3; number < 20 && field != nullptr; ++number) {
        field = std::strchr(field, ' ');
        if (field != nullptr) ++field;
    }
    if (field == nullptr) return StatResult::unavailable;
    char* end = nullptr;
    out.threads = std::strtol(field, &end, 10);                       // field 20
    std::strtoll(end, &end, 10);                                      // field 21
    out.start = std::strtoull(end, &end, 10) & ((1ULL << 40) - 1ULL);  // field 22
    return StatResult::ok;
}

// The calling process. A system call and a file read: keep the result.
[[nodiscard]] inline ProcessId this_process() noexcept {
    const pid_t pid = ::getpid();
    ProcessStat stat;
    return read_process_stat(pid, stat) == StatResult::ok ? make_process_id(pid, stat.start)
                                                          : make_process_id(pid, 0);
}

// False only when the process can never run another instruction: no such pid, another start
// time, or a zombie with no thread left (a zombie *leader* may have living threads).
[[nodiscard]] inline bool is_alive(ProcessId id) noexcept {
    ProcessStat stat;
    switch (read_process_stat(pid_of(id), stat)) {
        case StatResult::gone: return false;
        case StatResult::unavailable:
            return ::kill(pid_of(id), 0) == 0 || errno != ESRCH;
        case StatResult::ok: break;
    }
    if (start_of(id) != 0 && stat.start != start_of(id)) return false;
    const bool ended = stat.state == 'Z' || stat.state == 'X' || stat.state == 'x';
    return !(ended && stat.threads <= 1);
}

// Pids mean the same thing only inside one pid namespace; zero where there are none.
[[nodiscard]] inline std::uint64_t pid_namespace() noexcept {
    struct stat ns {};
    return ::stat("/proc/self/ns/pid", &ns) == 0 ? static_cast<std::uint64_t>(ns.st_ino) : 0;
}

}  // namespace trcore
