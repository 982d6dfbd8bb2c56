// SPDX-License-Identifier: MIT
// Contexts that are moved, and the version of the linked library.
#include "tests/support/catch.h"
#include "tests/support/small_calls.h"
#include <optional>

using namespace attune_test;

namespace {

constexpr const char *moved_message = "context: it has been moved from, and holds nothing";

// Checks that every call with a moved-from Context reports that, and leaves its outputs alone.
void check_moved_from(attune::Context &context) {
    CHECK(context.status().code() == attune::StatusCode::invalid_argument);
    CHECK(context.status().message() == moved_message);
    for (const auto &call : small::calls()) {
        INFO(call->name);
        CHECK(call->run(context).message() == moved_message);
        CHECK(call->untouched());
    }
    attune::Plan plan;
    CHECK(attune::plan_sdpa(context, {}, plan).message() == moved_message);
    CHECK(context.threads() == 1);
    CHECK(context.last_variant().empty());
    CHECK(context.scratch_bytes() == 0);
    context.release_scratch();
}

}  // namespace

TEST_CASE("contexts: one that is moved takes all along, and leaves one that answers", "[context]") {
    attune::Context first({.threads = 3, .scratch_bytes_per_thread = 1 << 20});
    small::Sdpa call({}, "sdpa", attune::Score::dot_product, false, true);
    REQUIRE(call.run(first).ok());
    const std::string variant = first.last_variant();
    const std::size_t kept = first.scratch_bytes();
    attune::Context second(std::move(first));
    CHECK(second.status().ok());
    CHECK(second.threads() == 3);
    CHECK(second.last_variant() == variant);
    CHECK(second.scratch_bytes() == kept);
    check_moved_from(first);
    CHECK(call.run(second).ok());

    first = std::move(second);
    CHECK(first.threads() == 3);
    CHECK(call.run(first).ok());
    check_moved_from(second);
    attune::Context third({.threads = 2});
    first = std::move(third);  // its former state is destroyed
    CHECK(first.threads() == 2);
    CHECK(first.last_variant().empty());
    CHECK(call.run(first).ok());
    attune::Context fourth(std::move(second));  // from a moved-from Context
    check_moved_from(fourth);
    second = attune::Context({.threads = 1});
    CHECK(call.run(second).ok());
}

TEST_CASE("contexts: a move to itself, one with wrong options, and lists of contexts", "[context]") {
    attune::Context context({.threads = 2});
    attune::Context &same = context;
    context = std::move(same);
    CHECK(context.status().ok());
    CHECK(context.threads() == 2);

    attune::Context wrong({.threads = -2});
    const std::string message = wrong.status().message();
    const attune::Context taken(std::move(wrong));
    CHECK(taken.status().message() == message);
    check_moved_from(wrong);

    std::vector<attune::Context> list;
    for (int threads = 1; threads <= 5; threads++) list.emplace_back(attune::ContextOptions{.threads = threads});
    for (int n = 0; n < 5; n++) {
        CHECK(list[std::size_t(n)].threads() == n + 1);
        small::MaskedSoftmax call({});
        CHECK(call.run(list[std::size_t(n)]).ok());
    }
}

TEST_CASE("version: headers and library are told apart", "[context]") {
    CHECK(attune::version == ATTUNE_VERSION_MAJOR * 10000 + ATTUNE_VERSION_MINOR * 100 + ATTUNE_VERSION_PATCH);
    CHECK(attune::linked_version() == attune::version);
    CHECK(std::string(attune::linked_version_string()) == ATTUNE_VERSION_STRING);
    CHECK(std::string(attune::version_string) == std::to_string(ATTUNE_VERSION_MAJOR) + "." +
                                                     std::to_string(ATTUNE_VERSION_MINOR) + "." +
                                                     std::to_string(ATTUNE_VERSION_PATCH));
}
