// SPDX-License-Identifier: MIT
// Common parts of the tests of AMX kernels: the machine that runs them, and cases.
#pragma once
#include "dispatch/cpu_features.h"
#include "tests/amx/amx_emulator.h"
#include "tests/support/catch.h"
#include "tests/support/sdpa_arrays.h"
#include <iostream>
#include <optional>

namespace attune_test {

// AMX tiles for the length of a test, by the CPU or by the emulator.
class Machine {
public:
    Machine() {
        std::string missing = attune::missing_for("sapphirerapids");  // asks Linux for the tiles' state, too
        if (missing.empty()) return;
        // AVX-VNNI belongs to the target, but these kernels do not use it.
        for (const std::string_view emulated :
             {"avxvnni", "amx-tile", "amx-bf16", "amx-int8", "avx512fp16", "permission to use amx tiles (arch_prctl)"})
            if (const auto at = missing.find(emulated); at != missing.npos) missing.erase(at, emulated.size());
        missing.erase(missing.find_last_not_of(' ') + 1);
        runs_ = missing.empty();
        if (runs_)
            emulation_.emplace();
        else
            std::cout << "SKIPPED [1] tests/amx: " << Catch::getResultCapture().getCurrentTestName()
                      << ": emulating AMX takes a CPU with " << missing << std::endl;
    }
    bool runs() const { return runs_; }
    // Whether tile products were computed. The CPU's own are not counted; the tests amx.instructions.* find them in the code.
    bool multiplied() const { return !emulation_ || amx::products > before_; }

private:
    bool runs_ = true;
    std::optional<amx::Emulation> emulation_;
    const long before_ = amx::products;
};

inline SdpaCase of_sizes(std::int64_t queries, std::int64_t keys, unsigned seed) {
    SdpaCase c;
    c.batch = 1, c.queries = queries, c.keys = keys, c.seed = seed;
    return c;
}

// Sets keys that take part for no query to NaN and infinities.
template<class T> void spoil_hidden_keys(SdpaArrays<T> &a) {
    const SdpaCase &c = a.the;
    int hidden = 0;
    for (std::int64_t b = 0; b < c.batch; b++)
        for (std::int64_t j = 0; j < c.keys; j++) {
            bool seen = false;
            for (std::int64_t i = 0; i < c.queries; i++) seen = seen || a.kept(b, 0, i, j);
            if (seen) continue;
            hidden++;
            for (std::int64_t h = 0; h < c.key_heads; h++)
                for (std::int64_t d = 0; d < c.head_dim; d++) {
                    using Limits = std::numeric_limits<T>;
                    a.key(b, h, j, d) = j % 2 ? Limits::quiet_NaN() : Limits::infinity();
                    a.value(b, h, j, d) = j % 3 ? Limits::quiet_NaN() : Limits::infinity();
                }
        }
    REQUIRE(hidden > 0);
}

}  // namespace attune_test
