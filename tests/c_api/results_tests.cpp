// SPDX-License-Identifier: MIT
// Functions of C that return plans, lists and numbers; contexts; and calls from many threads.
#include "tests/c_api/mirror_structs.h"
#include "tests/support/catch.h"
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

namespace attune_test {
namespace {

template<typename Candidates>
void require_candidates(const Candidates &expected, const attune_plan_candidate *given, std::size_t count) {
    REQUIRE(count == expected.size());
    for (std::size_t n = 0; n < count; n++) {
        CHECK(expected[n].variant == given[n].variant);
        CHECK(expected[n].predicted_us == given[n].predicted_us);
        CHECK(expected[n].measured == (given[n].measured == 1));
    }
}

TEST_CASE("plans in C are those of C++", "[c_api]") {
    attune::Context context;
    const CContext c;
    attune::SdpaProblem problem{
        .batch = 1, .query_heads = 8, .key_heads = 8, .queries = 70, .keys = 300, .head_dim = 64, .value_dim = 64};
    Mirror m;
    attune_sdpa_problem *of_c = m.of(problem);
    REQUIRE(attune_with_band(c, of_c, ATTUNE_CAUSAL_TOP_LEFT, {31, -1}) == ATTUNE_OK);
    problem = attune::with_band(problem, attune::Causal::top_left, {31, -1});
    CHECK(of_c->window_keys == problem.window_keys);
    CHECK(of_c->causal == (problem.causal ? 1 : 0));
    attune::Plan expected;
    attune_plan plan = ATTUNE_PLAN_INIT;
    REQUIRE(attune::plan_sdpa(context, problem, expected).ok());
    REQUIRE(attune_plan_sdpa(c, of_c, &plan) == ATTUNE_OK);
    CHECK(plan.size == sizeof plan);
    CHECK(expected.variant == plan.variant);
    CHECK(expected.reason == plan.reason);
    CHECK(expected.workspace_bytes == plan.workspace_bytes);
    CHECK(expected.workspace_bytes_of_any_lengths == plan.workspace_bytes_of_any_lengths);
    CHECK(expected.variant_of_last_queries == plan.variant_of_last_queries);
    require_candidates(expected.candidates, plan.candidates, plan.candidates_count);

    const attune::ProductProblem product{.op = "linear_packed", .rows = 7, .columns = 100, .depth = 64};
    attune::ProductPlan expected_product;
    attune_product_plan product_plan = ATTUNE_PRODUCT_PLAN_INIT;
    REQUIRE(attune::plan_product(context, product, expected_product).ok());
    REQUIRE(attune_plan_product(c, m.of(product), &product_plan) == ATTUNE_OK);
    CHECK(expected_product.variant == product_plan.variant);
    CHECK(expected_product.reason == product_plan.reason);
    CHECK(expected_product.variant_of_last_columns == product_plan.variant_of_last_columns);
    require_candidates(expected_product.candidates, product_plan.candidates, product_plan.candidates_count);
    attune_product_problem other = ATTUNE_PRODUCT_PROBLEM_INIT;
    other.op = "cubic";
    CHECK(attune_plan_product(c, &other, &product_plan) == ATTUNE_INVALID_ARGUMENT);
    CHECK(attune_plan_product(c, &other, nullptr) == ATTUNE_INVALID_ARGUMENT);
}

TEST_CASE("lists in C are those of C++", "[c_api]") {
    const CContext c;
    std::size_t count = 0;
    attune_variant_info info = ATTUNE_VARIANT_INFO_INIT;
    CHECK(attune_variant(c, 0, &info) == ATTUNE_INVALID_ARGUMENT);
    CHECK_THAT(c.message(), contains_text("index: must be below 0"));
    REQUIRE(attune_variants(c, &count) == ATTUNE_OK);
    const std::vector<attune::VariantInfo> variants = attune::variants();
    REQUIRE(count == variants.size());
    for (std::size_t n = 0; n < count; n++) {
        REQUIRE(attune_variant(c, n, &info) == ATTUNE_OK);
        const attune::VariantInfo &v = variants[n];
        REQUIRE(v.name == info.name);
        CHECK((v.op == info.op && v.target == info.target && v.schedule == info.schedule && v.kind == info.kind));
        CHECK((v.shape_class == info.shape_class && v.parameters == info.parameters && v.provenance == info.provenance));
        CHECK((v.why_not == info.why_not && v.head_dim == info.head_dim && static_cast<int>(v.dtype) == info.dtype));
        CHECK((v.dispatched == info.dispatched && v.runs_here == info.runs_here && v.cost_measured == info.cost_measured));
    }
    attune_target_info target = ATTUNE_TARGET_INFO_INIT;
    REQUIRE(attune_targets(c, &count) == ATTUNE_OK);
    const std::vector<attune::TargetInfo> targets = attune::targets();
    REQUIRE(count == targets.size());
    for (std::size_t n = 0; n < count; n++) {
        REQUIRE(attune_target(c, n, &target) == ATTUNE_OK);
        CHECK((targets[n].name == target.name && targets[n].missing == target.missing));
    }
    const char *line = nullptr;
    REQUIRE(attune_missing_variants(c, &line) == ATTUNE_OK);
    CHECK(attune::missing_variants() == line);
}

TEST_CASE("numbers of C are those of C++", "[c_api]") {
    const CContext c;
    const std::vector<float> expected = attune::alibi_slopes(12);
    std::vector<float> slopes(12);
    REQUIRE(attune_alibi_slopes(c, 12, slopes.data()) == ATTUNE_OK);
    CHECK(slopes == expected);
    CHECK(attune_alibi_slopes(c, 0, nullptr) == ATTUNE_OK);
    CHECK(attune_alibi_slopes(c, -1, slopes.data()) == ATTUNE_INVALID_ARGUMENT);
    CHECK(attune_alibi_slopes(c, 2, nullptr) == ATTUNE_INVALID_ARGUMENT);
    attune_thread_defaults threads = ATTUNE_THREAD_DEFAULTS_INIT;
    REQUIRE(attune_default_threads(c, &threads) == ATTUNE_OK);
    const attune::DefaultThreads of_cpp = attune::default_threads();
    CHECK((threads.threads == of_cpp.threads && threads.processors == of_cpp.processors));
    CHECK((threads.cpu_quota == of_cpp.cpu_quota && std::string(threads.limited_by) == of_cpp.limited_by));
    CHECK(attune_linked_version() == attune::linked_version());
    CHECK(attune_linked_version_string() == std::string(attune::linked_version_string()));
    for (int type = 0; type <= ATTUNE_I64; type++) {
        CHECK(attune_dtype_name(type) == std::string(attune::name_of(static_cast<attune::DType>(type))));
        CHECK(attune_dtype_size(type) == attune::size_of(static_cast<attune::DType>(type)));
    }
    CHECK((attune_dtype_name(9) == nullptr && attune_dtype_size(-1) == 0));
    for (const double x : {0.1, -3e5, 1e-9, 65519.9}) {
        CHECK(attune_bf16_from_double(x) == attune::to_bfloat16(x).bits);
        CHECK(attune_f16_from_double(x) == attune::to_float16(x).bits);
        CHECK(attune_bf16_to_float(attune_bf16_from_double(x)) == attune::to_float(attune::to_bfloat16(x)));
        CHECK(attune_f16_to_float(attune_f16_from_double(x)) == attune::to_float(attune::to_float16(x)));
    }
}

// Memory that an allocator of the test gives.
struct Counted {
    std::atomic<int> given{0};
    bool refuses = false;
    static void *allocate(void *user, std::size_t bytes, std::size_t alignment) {
        auto &counted = *static_cast<Counted *>(user);
        if (counted.refuses) return nullptr;
        counted.given++;
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    }
    static void release(void *user, void *block, std::size_t) { static_cast<Counted *>(user)->given--, std::free(block); }
};

attune_status attention(attune_context *c, float *out, int queries = 64) {
    static const std::vector<float> data(64 * 64, 0.5f);
    const std::int64_t extents[] = {queries, 64};
    const attune_tensor view = attune_dense(data.data(), ATTUNE_F32, 2, extents),
                        to = attune_dense(out, ATTUNE_F32, 2, extents);
    return attune_scaled_dot_product_attention(c, &view, &view, &view, &to, nullptr);
}

TEST_CASE("a context of C has the options that it was made with", "[c_api]") {
    Counted counted;
    attune_allocator allocator = ATTUNE_ALLOCATOR_INIT;
    allocator.allocate = Counted::allocate, allocator.release = Counted::release, allocator.user = &counted;
    attune_context_options options = ATTUNE_CONTEXT_OPTIONS_INIT;
    options.threads = 3, options.allocator = &allocator;
    attune_context *c = nullptr;
    REQUIRE(attune_context_create(&options, &c) == ATTUNE_OK);
    CHECK(attune_context_threads(c) == 3);
    CHECK((attune_last_variant(c) == std::string() && attune_last_message(c) == std::string()));
    std::vector<float> out(64 * 64);
    REQUIRE(attention(c, out.data()) == ATTUNE_OK);
    CHECK((counted.given > 0 && attune_scratch_bytes(c) > 0 && attune_last_variant(c) != std::string()));
    CHECK(attune_release_scratch(c) == ATTUNE_OK);
    CHECK((counted.given == 0 && attune_scratch_bytes(c) == 0));
    counted.refuses = true;
    CHECK(attention(c, out.data()) == ATTUNE_OUT_OF_MEMORY);
    CHECK(attune_last_message(c) != std::string());
    attune_context_destroy(c);
}

TEST_CASE("a context of C whose options are refused says so at each call", "[c_api]") {
    std::vector<float> out(64 * 64);
    attune_context_options options = ATTUNE_CONTEXT_OPTIONS_INIT;
    for (const bool by_size : {false, true}) {
        options.threads = by_size ? 0 : -2;
        if (by_size) options.size = 4;
        attune_context *c = nullptr;
        REQUIRE(attune_context_create(&options, &c) == ATTUNE_INVALID_ARGUMENT);
        REQUIRE(c);
        const std::string message = attune_last_message(c);
        CHECK_THAT(message, contains_text(by_size ? "options.size: must be the sizeof" : "threads: must be from 1 to 1024"));
        CHECK(attention(c, out.data()) == ATTUNE_INVALID_ARGUMENT);
        CHECK(message == attune_last_message(c));
        attune_context_destroy(c);
    }
    CHECK(attune_context_create(nullptr, nullptr) == ATTUNE_INVALID_ARGUMENT);
    CHECK(attention(nullptr, out.data()) == ATTUNE_INVALID_ARGUMENT);
    CHECK(attune_last_message(nullptr) == std::string("context: must be given"));
    CHECK((attune_context_threads(nullptr) == 0 && attune_scratch_bytes(nullptr) == 0));
    CHECK(attune_device_scratch_bytes(nullptr) == 0);
    CHECK((attune_last_variant(nullptr) == std::string() && attune_release_scratch(nullptr) == ATTUNE_INVALID_ARGUMENT));
    attune_context_destroy(nullptr);
}

TEST_CASE("64 threads call at once, each with a context of its own, and in turn with one", "[c_api]") {
    std::vector<float> expected(64 * 64);
    const CContext first, shared;
    REQUIRE(attention(first, expected.data()) == ATTUNE_OK);
    std::atomic<int> wrong{0};
    std::mutex in_turn;
    std::vector<std::thread> threads;
    for (int n = 0; n < 64; n++)
        threads.emplace_back([&, n] {
            const CContext own(1 + n % 4);
            std::vector<float> out(64 * 64);
            for (int round = 0; round < 20; round++) {
                // A refused call in between, whose message is that of its own context.
                const std::string extents = "(" + std::to_string(n % 63 + 1) + ", 64)";
                const std::int64_t few[] = {n % 63 + 1, 64}, all[] = {64, 64};
                const attune_tensor x = attune_dense(out.data(), ATTUNE_F32, 2, all),
                                    y = attune_dense(out.data(), ATTUNE_F64, 2, few);
                if (attune_masked_softmax(own, &x, &y, nullptr) != ATTUNE_INVALID_ARGUMENT || own.message().empty()) wrong++;
                if (attention(own, out.data()) != ATTUNE_OK || !own.message().empty() || out != expected) wrong++;
                const std::lock_guard lock(in_turn);  // one context serves one call at a time
                if (attention(shared, out.data()) != ATTUNE_OK || out != expected) wrong++;
            }
        });
    for (std::thread &t : threads) t.join();
    CHECK(wrong == 0);
}

TEST_CASE("an attention that nobody registered is refused in C", "[c_api]") {
    const CContext c;
    attune_block_mask *blocks = nullptr;
    REQUIRE(attune_block_mask_create(c, &blocks) == ATTUNE_OK);
    attune_block_mask_clear(blocks);
    CHECK(attune_user_attention(c, "recency", nullptr, nullptr, nullptr, nullptr, nullptr, 0, blocks, nullptr) ==
          ATTUNE_INVALID_ARGUMENT);
    CHECK(c.message() == "name: no attention is linked in or loaded that is called recency");
    CHECK(attune_user_attention_backward(c, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0,
                                         blocks, nullptr) == ATTUNE_INVALID_ARGUMENT);
    CHECK(c.message() == "name: must be given");
    attune_block_mask_destroy(blocks);
}

}  // namespace
}  // namespace attune_test
