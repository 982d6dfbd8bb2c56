// SPDX-License-Identifier: MIT
// Every function refuses before it writes, whichever of its parts refuses, and a failed call does not count as the last
// successful one.
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/small_calls.h"

using namespace attune_test;

namespace {

// Sizes of calls: with more queries and keys, more parts of a call have kernels of their own.
constexpr SmallSizes few{}, many{.queries = 70, .keys = 70, .dim = 33, .value_dim = 8};

bool refuses_cleanly(SmallCall &call, const attune::Status &status) {
    INFO(call.name << ": " << status.message());
    if (status.ok()) return false;
    CHECK(!status.message().empty());
    CHECK(status.code() != attune::StatusCode::internal);
    CHECK(call.untouched());
    return true;
}

}  // namespace

TEST_CASE("refusals: a part that a forced variant does not fit is refused before anything is written", "[runtime][bad_input]") {
    int refused = 0, ran = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        INFO(v.name);
        const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name).c_str());
        attune::Context context({.threads = 1});
        const bool is_part = v.op == "max_magnitude" || v.op == "batch_dot" || v.op == "transposed_dot" || v.op == "linear";
        for (const auto &call : small::calls(is_part ? many : few)) {
            if (call->name.starts_with("pack_linear")) continue;  // makes two calls
            (refuses_cleanly(*call, call->run(context)) ? refused : ran)++;
        }
    }
    CHECK(refused > 100);
    CHECK(ran > refused);
}

TEST_CASE("refusals: a variant that the options name and some part does not take writes nothing", "[runtime][bad_input]") {
    attune::Context context({.threads = 1});
    int refused = 0, ran = 0;
    for (const attune::VariantInfo &v : attune::variants())
        for (const auto &call : small::calls()) {
            if (!call->variant()) continue;
            INFO(v.name);
            *call->variant() = v.name;
            (refuses_cleanly(*call, call->run(context)) ? refused : ran)++;
        }
    CHECK(refused > ran);
    CHECK(ran > 100);
}

TEST_CASE("refusals: a call that fails leaves last_variant as it is", "[runtime][bad_input]") {
    attune::Context context({.threads = 1});
    for (const auto &call : small::calls()) {
        INFO(call->name);
        const auto right = call->run(context);
        INFO(right.message());
        REQUIRE(right.ok());
        const std::string last = context.last_variant();
        for (const auto &other : small::calls()) {
            if (other->name.starts_with("pack_linear")) continue;  // makes two calls, and only the second fails
            INFO(other->name);
            other->outputs.back()->dtype = attune::DType::i32;
            CHECK(!other->run(context).ok());
            CHECK(context.last_variant() == last);
        }
        attune::Plan plan;
        CHECK(attune::plan_sdpa(context, {.keys = 70}, plan).ok());
        CHECK(context.last_variant() == last);
    }
}

TEST_CASE("refusals: parts that ran in a call that fails are not the last variant", "[runtime][bad_input]") {
    // An allocator that fails from the n-th request on: each n stops another part.
    struct Counter {
        int left = 0;
        static void *allocate(void *user, std::size_t bytes, std::size_t alignment) {
            auto &left = static_cast<Counter *>(user)->left;
            return left-- > 0 ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : nullptr;
        }
        static void release(void *, void *block, std::size_t) { std::free(block); }
    };
    int failed = 0;
    for (const auto &call : small::calls(many)) {
        if (call->name.starts_with("pack_linear")) continue;  // makes two calls, the first of which may be right
        for (int count = 0; count < 12; count++) {
            Counter counter;
            counter.left = 1 << 20;
            attune::Context context(
                {.threads = 1, .scratch_bytes_per_thread = 0, .allocator = {Counter::allocate, Counter::release, &counter}});
            small::Merge merge(few);
            REQUIRE(merge.run(context).ok());
            const std::string last = context.last_variant();
            counter.left = count;
            const auto status = call->run(context);
            INFO(call->name << " " << count << " " << status.message());
            if (status.ok()) break;
            CHECK(status.code() == attune::StatusCode::out_of_memory);
            CHECK(context.last_variant() == last);
            failed++;
        }
    }
    CHECK(failed > 10);
}
