// SPDX-License-Identifier: MIT
// A small legal call whose parts a test spoils, and the check of its refusal.
#pragma once
#include "tests/support/sdpa_arrays.h"
#include <cctype>
#include <functional>

namespace attune_test {

struct SpoiledCall {
    // Two entries, four query heads on two key heads, three queries, five keys, head sizes 8 and 6; every output.
    SdpaArrays<float> arrays{{.query_heads = 4,
                              .key_heads = 2,
                              .queries = 3,
                              .keys = 5,
                              .head_dim = 8,
                              .value_dim = 6,
                              .weights = attune::WeightsMode::probabilities}};
    attune::ConstView query = arrays.query.view(), key = arrays.key.view(), value = arrays.value.view();
    attune::View out = arrays.out.view();
    attune::SdpaOptions options = arrays.options({});
    attune::Context context;

    attune::Status run() { return attune::scaled_dot_product_attention(context, query, key, value, out, options); }
};

// Fault of a message: it must start with the argument's name and contain each of `parts` (numbers as whole numbers).
inline std::string message_defect(const std::string &message, const std::string &argument,
                                  const std::vector<std::string> &parts) {
    if (message.rfind(argument + ":", 0) != 0) return "does not start with \"" + argument + ":\": " + message;
    if (message.find('\n') != message.npos) return "more than one line: " + message;
    for (const std::string &part : parts) {
        const auto digit = [&](std::size_t at) {
            return at < message.size() && std::isdigit(static_cast<unsigned char>(message[at]));
        };
        bool found = false;
        for (std::size_t at = message.find(part); at != message.npos && !found; at = message.find(part, at + 1)) {
            const bool number = std::isdigit(static_cast<unsigned char>(part.back()));
            found = !number || (!digit(at + part.size()) && !(at > 0 && digit(at - 1)));
        }
        if (!found) return "lacks \"" + part + "\": " + message;
    }
    return {};
}

// Checks that the call is refused in the expected words and writes nothing, and that the Context still serves a legal call.
inline void check_refused(SpoiledCall &call, attune::StatusCode code, const std::string &argument,
                          const std::vector<std::string> &parts = {}) {
    const attune::Status status = call.run();
    INFO(status.message());
    CHECK(status.code() == code);
    CHECK(message_defect(status.message(), argument, parts) == "");
    CHECK(call.arrays.out.untouched());
    CHECK(call.arrays.lse.untouched());
    CHECK(call.arrays.weights.untouched());
    SpoiledCall right;
    const attune::Status after =
        attune::scaled_dot_product_attention(call.context, right.query, right.key, right.value, right.out, right.options);
    CHECK(after.ok());
    CHECK(defect(right.arrays) == "");
}

// Checks that a call spoiled by f is refused.
inline void refused(attune::StatusCode code, const std::string &argument, const std::vector<std::string> &parts,
                    const std::function<void(SpoiledCall &)> &f) {
    SpoiledCall call;
    f(call);
    check_refused(call, code, argument, parts);
}
using Call = SpoiledCall;

// Memory for spoiled arguments of any size.
inline const std::vector<float> floats(4000, 0.5f);
inline const std::vector<double> doubles(4000, 0.5);

inline constexpr auto invalid = attune::StatusCode::invalid_argument;
inline constexpr auto unsupported = attune::StatusCode::unsupported;

// Checks that a Call spoiled by f is refused in the given words, with nothing written, and that the unspoiled call still works.
// Compiled once for all ways to spoil it.
template<typename Call>
void refuses(attune::StatusCode code, const std::string &argument, const std::vector<std::string> &parts,
             const std::function<void(Call &)> &f) {
    Call call;
    f(call);
    const attune::Status status = call.run();
    INFO(status.message());
    CHECK(status.code() == code);
    CHECK(message_defect(status.message(), argument, parts) == "");
    CHECK(call.untouched());
    Call right;
    CHECK(right.run().ok());
    if constexpr (requires { defect(right.arrays); }) CHECK(defect(right.arrays) == "");
}

}  // namespace attune_test
