// SPDX-License-Identifier: MIT
// Every variant of an op with plans runs in the memory of its plan, under an allocator that refuses more.
#include "tests/support/counting_allocator.h"
#include "tests/support/environment.h"
#include "tests/support/planned_problem.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;
using attune::Causal, attune::Score;

namespace {
constexpr int cases_of_a_variant = 12;

// A random problem that a variant can compute: sizes around its tiles and KV blocks, and every kind of mask.
SdpaCase drawn_case(const attune::VariantInfo &v, Score score, std::mt19937 &random) {
    const auto one_of = [&](std::initializer_list<std::int64_t> all) { return all.begin()[random() % all.size()]; };
    const std::int64_t tile = tile_of(v), kv_block = kv_block_of(v);
    SdpaCase c{.batch = one_of({1, 1, 2, 3}), .key_heads = one_of({1, 2, 5}), .score = score, .seed = unsigned(random())};
    c.query_heads = c.key_heads * one_of({1, 1, 4});
    c.queries = one_of({1, 2, 7, tile, tile + 1, 3 * tile - 1, 64, 65, 130});
    c.keys = one_of({1, 30, 64, 65, kv_block, kv_block + 1, 3 * kv_block - 1, 1000});
    c.head_dim = v.head_dim ? v.head_dim : one_of({1, 7, 17, 40, 64, 96, 130});
    c.value_dim = v.head_dim ? v.head_dim : one_of({1, 9, 16, 33, 64, 80, 129});
    if (v.head_dim == 0 && random() % 4 == 0) {  // scratch per key dominates
        c.batch = 4, c.key_heads = c.query_heads = 16, c.head_dim = c.value_dim = 1, c.queries = 64;
    }
    if (score == Score::general) c.key_dim = c.head_dim;  // as the plan assumes
    // Limit for time; a root schedule holds every score.
    const std::int64_t most = v.schedule == "root" ? 2'000'000 : 20'000'000;
    const auto work = [&] { return c.batch * c.query_heads * c.queries * c.keys * (c.head_dim + c.value_dim); };
    while (work() > most && c.batch > 1) c.batch--;
    if (work() > most) c.query_heads /= c.key_heads, c.key_heads = 1;
    if (work() > most) c.query_heads = 1;
    while (work() > most && c.queries > 1) c.queries = (c.queries + 1) / 2;

    if (random() % 2) c.causal = Causal(random() % 3);
    if (random() % 3 == 0) c.window = {one_of({0, 9, 100}), one_of({-1, 0, 50})};
    if (random() % 3 == 0)
        for (std::int64_t n = random() % 2 ? c.batch : c.batch * c.queries; n-- > 0;)
            c.valid_lens.push_back(std::int32_t(random() % std::uint64_t(c.keys + 1)));
    if (v.kind == "plain") return c;
    if (random() % 2) c.bias = "hij";
    if (random() % 2) c.mask = "b11j";
    if (random() % 2) c.softcap = 5, c.alibi = Alibi::standard, c.sinks = true;
    if (v.kind == "training" && random() % 2) c.dropout = {0.5, 1, 0};
    return c;
}

// Runs a case with the memory of its plan.
template<typename T> void check_within_plan(const attune::VariantInfo &v, const SdpaCase &c, int threads) {
    CountingAllocator allocator;
    SdpaArrays<T> a(c);
    attune::SdpaOptions options = a.options({});
    options.lse = {};  // then lse is in scratch
    attune::Context context({.threads = threads, .allocator = allocator.hook()});
    attune::Plan plan;
    CHECK(attune::plan_sdpa(context, problem_of(c, attune::dtype_of<T>()), plan).ok());
    CHECK(plan.variant == v.name);
    allocator.limit = plan.workspace_bytes;
    const attune::Status status =
        attune::scaled_dot_product_attention(context, a.query.view(), a.key.view(), a.value.view(), a.out.view(), options);
    INFO(describe(c) << ", " << threads << " threads, plan " << plan.workspace_bytes << ' ' << status.message());
    CHECK(status.ok());
    CHECK(allocator.refused == 0);  // not even requests that kept blocks could serve
}

void check_op(std::string_view op, Score score, const std::vector<std::string_view> &kinds) {
    std::mt19937 random(std::random_device{}());
    const unsigned seed = unsigned(random());
    random.seed(seed);
    INFO("seed " << seed);
    for_each_variant_and_head_size(op, kinds, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        if (score != Score::dot_product && is_half<T>) return;
        const Environment force("ATTUNE_FORCE_VARIANT", std::string(v.name));
        for (int n = 0; n < cases_of_a_variant; n++) check_within_plan<T>(v, drawn_case(v, score, random), 1 + n % 3);
    });
}
}  // namespace

TEST_CASE("plan: every variant of the dot product runs within its bound", "[runtime][plan]") {
    check_op("sdpa", Score::dot_product, any_kind);
}

TEST_CASE("plan: every variant of other scores runs within its bound", "[runtime][plan]") {
    check_op("cosine", Score::cosine, any_kind);
    check_op("gaussian", Score::gaussian, any_kind);
    check_op("sdpa", Score::general, {"plain"});
}

TEST_CASE("plan: the bound holds for entries that hold any number of keys", "[runtime][plan]") {
    unsigned seed = 1;
    for (const std::int64_t queries : {1, 6, 70})
        for (const std::int64_t head_dim : {64, 20}) {
            SdpaCase c{.batch = 4, .query_heads = 8, .key_heads = 4, .queries = queries, .keys = 9000, .head_dim = head_dim};
            c.value_dim = head_dim, c.seed = seed++;
            SdpaArrays<float> a(c);
            attune::Plan plan;
            const std::vector<std::int32_t> some_lens[] = {
                {9000, 9000, 9000, 9000}, {9000, 70, 3000, 1}, {64, 64, 64, 64}, {0, 500, 40, 9000}, {33, 150, 700, 2500}};
            for (const std::vector<std::int32_t> &lens : some_lens) {
                CountingAllocator allocator;
                attune::Context context({.threads = 2, .allocator = allocator.hook()});
                REQUIRE(attune::plan_sdpa(context, problem_of(c, attune::DType::f32), plan).ok());
                allocator.limit = plan.workspace_bytes_of_any_lengths;
                a.the.valid_lens = lens;
                attune::SdpaOptions options = a.options({});
                options.lse = {};
                const auto status = attune::scaled_dot_product_attention(context, a.query.view(), a.key.view(), a.value.view(),
                                                                         a.out.view(), options);
                INFO(describe(a.the) << " plan " << plan.workspace_bytes_of_any_lengths << ' ' << status.message());
                CHECK(status.ok());
                CHECK(plan.workspace_bytes <= plan.workspace_bytes_of_any_lengths);
            }
        }
}

TEST_CASE("plan: what other calls left in the Context does not count", "[runtime][plan]") {
    CountingAllocator allocator;
    attune::Context context({.threads = 1, .allocator = allocator.hook()});
    SdpaCase c{.batch = 1, .query_heads = 2, .key_heads = 2, .queries = 70, .keys = 4000};
    SdpaArrays<float> larger(c);
    REQUIRE(larger.run(context).ok());
    c.queries = 20, c.keys = 300, c.head_dim = 24;
    SdpaArrays<float> smaller(c);
    attune::Plan plan;
    REQUIRE(attune::plan_sdpa(context, problem_of(c, attune::DType::f32), plan).ok());
    REQUIRE(allocator.live > plan.workspace_bytes);
    allocator.limit = allocator.live;  // so that only memory given back is left
    CHECK(smaller.run(context).ok());
    CHECK(allocator.defects == 0);
}
