// What the tuner needs of a user's attention: its calls with captures from files, and a judgement of them by root kernels.
#include "attune/attention_library.h"
#include "tests/support/catch.h"
#include "tests/tune/temporary.h"
#include "tools/error.h"
#include "tools/npy.h"
#include "tools/tune/user_case.h"
#include <cstring>

using namespace attune::tune;
using attune::program::InputError;

namespace {

std::string npy(const TemporaryFolder &folder, const std::string &name, const std::vector<float> &values) {
    std::string text = attune::program::npy_header(attune::program::ElementType::f32, {std::int64_t(values.size())});
    text.append(reinterpret_cast<const char *>(values.data()), 4 * values.size());
    return folder.write(name, text);
}

bench::Shape shape(attune::DType dtype = attune::DType::f32) {
    bench::Shape s;
    s.dtype = dtype, s.b = 2, s.h = 4, s.kv = 2, s.q = 37, s.k = 70, s.d = 16, s.dv = 24;
    return s;
}

attune::VariantInfo prefill_of(std::string_view op, std::string_view schedule) {
    for (const attune::VariantInfo &v : attune::variants())
        if (v.op == op && v.dtype == attune::DType::f32 && v.schedule == schedule && v.runs_here) return v;
    FAIL("no variant of " << op);
    return {};
}

// Runs a variant on a case and judges it.
std::string defect(bench::Case &c, std::string_view variant) {
    attune::Context context({.threads = 2});
    c.forget_output();
    const attune::Status status = c.call(context, variant);
    return status.ok() ? c.check_output() : status.message();
}

template<typename F> std::string error_of(const F &f) {
    try {
        f();
    } catch (const InputError &e) {
        return e.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("user case: attention and gradients with captures are right by root's word", "[tune]") {
    const TemporaryFolder folder;
    const Captures captures = {{"slopes", npy(folder, "slopes.npy", {0.5f, 0.25f, 0.125f, 0.0625f})}};
    for (const auto &[op, schedule] : {std::pair("alibi_attention", "prefill"), {"alibi_attention_backward", "tiles"}}) {
        const attune::VariantInfo v = prefill_of(op, schedule);
        INFO(v.name);
        CHECK(defect(*make_user_case(op, shape(), captures), v.name) == "");
        const std::vector<bench::Shape> awkward = awkward_user_shapes(v, shape());
        CHECK(awkward.size() >= 8);
        for (const bench::Shape &s : awkward) {
            INFO(s.label());
            CHECK(s.q <= 37);
            CHECK(s.k <= 70);
            CHECK(defect(*make_user_case(op, s, captures), v.name) == "");
        }
    }
}

TEST_CASE("user case: other captures than those of the call are wrong", "[tune]") {
    const TemporaryFolder folder;
    const Captures one = {{"slopes", npy(folder, "one.npy", {0.5f, 0.25f, 0.125f, 0.0625f})}},
                   other = {{"slopes", npy(folder, "other.npy", {0.5f, 0.25f, 0.125f, 0.07f})}};
    const auto right = make_user_case("alibi_attention", shape(), one),
               wrong = make_user_case("alibi_attention", shape(), other);
    CHECK(defect(*right, {}) == "");
    // What is expected of one, of the output of the other.
    wrong->sample(1e12, 1), right->sample(1e12, 1);
    bench::Expected expected = right->expected();
    wrong->expect(std::move(expected));
    CHECK(defect(*wrong, {}).find("out") != std::string::npos);
}

TEST_CASE("user case: captures that are not as the struct has them are refused", "[tune]") {
    const TemporaryFolder folder;
    const auto made = [&](const Captures &captures, attune::DType dtype = attune::DType::f32) {
        return error_of([&] { make_user_case("alibi_attention", shape(dtype), captures); });
    };
    const std::string slopes = npy(folder, "slopes.npy", {0.5f, 0.25f, 0.125f, 0.0625f});
    CHECK(made({}).find("--capture slopes: must be given") == 0);
    CHECK(made({{"slopes", slopes}, {"rate", "1"}}).find("--capture rate: ") == 0);
    CHECK(made({{"slopes", "1"}}).find("--capture slopes: ") == 0);
    CHECK(made({{"slopes", slopes}}, attune::DType::f64).find("f64") != std::string::npos);
    CHECK(error_of([] { make_user_case("no_attention", shape(), {}); }).find("no_attention: ") == 0);
}

TEST_CASE("user case: the module that the tuner loads has the attention and its root kernels", "[tune]") {
    // every_other is linked in with prefill alone, in f32.
    const auto roots = [] {
        int count = 0;
        for (const attune::VariantInfo &v : attune::variants()) count += v.op == "every_other" && v.schedule == "root";
        return count;
    };
    CHECK(roots() == 0);
    const attune::AttentionRecord *linked = attune::find_attention("every_other");
    REQUIRE(linked);
    load_attention(EVERY_OTHER_MODULE);
    CHECK(roots() == 2);
    const attune::AttentionRecord *loaded = attune::find_attention("every_other_backward");
    REQUIRE(loaded);
    CHECK(loaded != linked);
    CHECK(loaded->name == "every_other");
    for (const char *op : {"every_other", "every_other_backward"})
        CHECK(defect(*make_user_case(op, shape(), {{"step", "3"}}), {}) == "");
    CHECK_THROWS_AS(load_attention("/there/is/no/module.so"), attune::program::MachineError);
}
