// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
//
// CHECK(condition): says where it failed and ends the program, from any thread.
// TEST(name) { ... }: a test; run_all_tests() runs them in order of definition.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__,     \
                         #condition);                                                 \
            std::_Exit(1);                                                            \
        }                                                                             \
    } while (false)

// The expression throws Error and its message contains `words`.
#define CHECK_THROWS(Error, words, expression)                                        \
    do {                                                                              \
        bool thrown = false;                                                          \
        try {                                                                         \
            static_cast<void>(expression);                                            \
        } catch (const Error& error) {                                                \
            thrown = std::string(error.what()).find(words) != std::string::npos;      \
        }                                                                             \
        CHECK(thrown && #expression " throws " #Error);                               \
    } while (false)

namespace check {

struct Test { const char* name; void (*run)(); };
inline std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}
struct Register { Register(const char* name, void (*run)()) { tests().push_back({name, run}); } };

inline int run_all_tests() {
    for (const Test& test : tests()) {
        std::printf("%s\n", test.name);
        std::fflush(stdout);
        test.run();
    }
    return 0;
}

}  // namespace check

#define TEST(name)                                          \
    static void test_##name();                              \
    static const check::Register register_##name(#name, &test_##name); \
    static void test_##name()
