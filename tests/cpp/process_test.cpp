// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include "check.hpp"
#include "trcore/process.hpp"

TEST(this_process_lives) { CHECK(trcore::is_alive(trcore::this_process())); }

TEST(a_reused_pid_is_another_process) {
    const auto self = trcore::this_process();
    if (trcore::start_of(self) == 0) return;  // no /proc
    CHECK(!trcore::is_alive(trcore::make_process_id(trcore::pid_of(self), trcore::start_of(self) + 1)));
}

TEST(a_zombie_is_dead_and_so_is_a_reaped_process) {
    int channel[2];
    CHECK(::pipe(channel) == 0);
    const pid_t child = ::fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte = 0;
        ::close(channel[1]);
        ::_exit(::read(channel[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::close(channel[0]);
    trcore::ProcessStat stat;
    std::uint64_t start = 0;
    if (trcore::read_process_stat(child, stat) == trcore::StatResult::ok) start = stat.start;
    const auto id = trcore::make_process_id(child, start);
    CHECK(trcore::is_alive(id));
    ::close(channel[1]);
    siginfo_t info{};
    CHECK(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    if (start != 0) CHECK(!trcore::is_alive(id));  // a zombie
    CHECK(::waitpid(child, nullptr, 0) == child);
    CHECK(!trcore::is_alive(id));
}

int main() { return check::run_all_tests(); }
