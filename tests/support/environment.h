// SPDX-License-Identifier: MIT
// The environment of tests: whether an emulator runs them, and variables that are set for the length of a block.
#pragma once
#include <cstdlib>
#include <string>

namespace attune_test {

// Whether the environment has ATTUNE_TEST_EMULATED, which a cross-build sets: what no emulator can hold is skipped.
inline bool is_emulated() { return std::getenv("ATTUNE_TEST_EMULATED") != nullptr; }

// A variable that is set for the length of a block.
class Environment {
public:
    Environment(const char *name, const std::string &value) : name_(name) {
        if (const char *old = std::getenv(name)) had_ = true, old_ = old;
        setenv(name, value.c_str(), 1);
    }
    ~Environment() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
    Environment(const Environment &) = delete;
    Environment &operator=(const Environment &) = delete;

private:
    const char *name_;
    bool had_ = false;
    std::string old_;
};

}  // namespace attune_test
