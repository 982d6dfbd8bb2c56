// SPDX-License-Identifier: MIT
// Registered variants: which of several with one name counts, and that the listed one runs.
#include "attune/detail/registration.h"
#include "tests/support/environment.h"
#include "tests/support/masked_softmax_case.h"
#include <algorithm>

using namespace attune_test;
using attune::detail::VariantRecord;

namespace {

// The target whose variants dispatch chooses here.
const std::string &target() {
    static const std::string name = [] {
        for (const attune::VariantInfo &v : attune::variants())
            if (v.op == "masked_softmax" && v.schedule == "rows" && v.runs_here) return std::string(v.target);
        return std::string("generic");
    }();
    return name;
}
std::string rows_of(std::string_view dtype) { return "masked_softmax_" + std::string(dtype) + "_" + target() + "_rows"; }

std::vector<attune::VariantInfo> named(std::string_view name) {
    std::vector<attune::VariantInfo> found;
    for (const attune::VariantInfo &v : attune::variants())
        if (v.name == name) found.push_back(v);
    return found;
}

// Kernels that record their call, and fail, so that no output is used.
std::string called;
int first_kernel(void **) { return called = "first", 1; }
int second_kernel(void **) { return called = "second", 1; }

VariantRecord record(std::string_view name, std::string_view shape_class, std::string_view parameters, int (*kernel)(void **)) {
    return {name,
            "masked_softmax",
            attune::DType::f64,
            0,
            target(),
            "rows",
            shape_class,
            "",
            parameters,
            "of a test",
            1,
            1,
            {},
            "",
            true,
            kernel};
}

std::string kernel_of_a_call(std::string_view variant = {}) {
    called.clear();
    attune::Context context({.threads = 1});
    std::vector<double> scores(6, 1.0), out(6);
    CHECK(!attune::masked_softmax(context, attune::ConstView(scores.data(), {2, 3}), attune::View(out.data(), {2, 3}),
                                  {.variant = variant})
               .ok());
    return called;
}

}  // namespace

TEST_CASE("tuned: an archive of variants takes the place of the library's", "[tuned]") {
    const std::string tuned = rows_of("f32");
    const auto found = named(tuned);
    REQUIRE(found.size() == 1);
    CHECK(found[0].parameters == "block=64 task_rows=4");
    CHECK(found[0].provenance.find("of the tests") != std::string_view::npos);
    CHECK(found[0].dispatched);
    REQUIRE(found[0].runs_here);
    attune::Context context({.threads = 2});
    check_case<float>(context, {.queries = 13, .keys = 131});
    CHECK(context.last_variant() == tuned);
    check_case<float>(context, {.queries = 2, .keys = 64}, tuned);
    Environment force("ATTUNE_FORCE_VARIANT", tuned);
    attune::Context forced({.threads = 2});
    check_case<float>(forced, {});
    CHECK(forced.last_variant() == tuned);
}

TEST_CASE("tuned: other variants are the library's", "[tuned]") {
    for (const attune::VariantInfo &v : attune::variants()) {
        CHECK(named(v.name).size() == 1);
        const bool own =
            v.op == "masked_softmax" && v.schedule == "rows" && v.shape_class.empty() && v.dtype == attune::DType::f32;
        CHECK(own == (v.provenance.find("of the tests") != std::string_view::npos));
    }
}

TEST_CASE("tuned: of registered variants with one name the later counts", "[tuned]") {
    static const std::string name = rows_of("f64");
    const std::size_t count = attune::variants().size();
    static const VariantRecord first[] = {record(name, "", "task_rows=1", first_kernel)};
    static const VariantRecord second[] = {record(name, "", "task_rows=2", second_kernel)};
    const attune::detail::VariantRegistration earlier(first);
    CHECK(kernel_of_a_call() == "first");
    const attune::detail::VariantRegistration later(second);
    CHECK(kernel_of_a_call() == "second");
    CHECK(kernel_of_a_call(name) == "second");
    REQUIRE(named(name).size() == 1);
    CHECK(named(name)[0].parameters == "task_rows=2");
    CHECK(attune::variants().size() == count);
}

TEST_CASE("tuned: a variant of a name of its own is listed beside the others, and found where it is forced", "[tuned]") {
    static const std::string name = rows_of("f64") + "@7";
    const std::size_t count = attune::variants().size();
    static VariantRecord candidate[] = {record(name, "", "task_rows=7", first_kernel)};
    candidate[0].dispatched = false;
    const attune::detail::VariantRegistration registration(candidate);
    CHECK(attune::variants().size() == count + 1);
    CHECK(kernel_of_a_call(name) == "first");
    std::vector<double> scores(6, 1.0), out(6);
    attune::Context context;
    (void)attune::masked_softmax(context, attune::ConstView(scores.data(), {2, 3}), attune::View(out.data(), {2, 3}));
    CHECK(context.last_variant() != name);
}
