// SPDX-License-Identifier: MIT
// plan_sdpa() predicts the call: which variant, and how much scratch.
#include "tests/support/counting_allocator.h"
#include "tests/support/option_sets.h"
#include "tests/support/planned_problem.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <algorithm>
#include <attune/linear.h>
#include <cstdlib>
#include <map>

using namespace attune_test;

namespace {
// The case of the keys that batch entry n holds.
SdpaCase held_by(SdpaCase c, std::int64_t n) {
    const auto of_entry = std::int64_t(c.valid_lens.size()) / c.batch;
    if (of_entry == 0) return c;
    const auto first = c.valid_lens.begin() + n * of_entry;
    c.keys = *std::max_element(first, first + of_entry);
    return c;
}

// Plans the case and runs it on a fresh Context; returns the plan and the measured peak.
template<typename T> std::pair<attune::Plan, std::size_t> plan_and_run(const SdpaCase &c, int threads) {
    CountingAllocator allocator;
    attune::Plan plan;
    {
        attune::Context context({.threads = threads, .allocator = allocator.hook()});
        CHECK(attune::plan_sdpa(context, problem_of(c, attune::dtype_of<T>()), plan).ok());
        CHECK(!plan.reason.empty());
        SdpaArrays<T> a(c);
        const auto status = a.run(context);
        INFO(describe(c) << ' ' << status.message());
        CHECK(status.ok());
        // An entry's variant is that of the rows it holds: all, without lengths.
        std::vector<std::string> planned;
        if (c.valid_lens.empty()) planned.push_back(plan.variant);
        for (std::int64_t n = 0; n < (c.valid_lens.empty() ? 0 : c.batch); n++) {
            attune::Plan of_entry;
            CHECK(attune::plan_sdpa(context, problem_of(held_by(c, n), attune::dtype_of<T>()), of_entry).ok());
            planned.push_back(of_entry.variant);
        }
        CHECK(std::find(planned.begin(), planned.end(), context.last_variant()) != planned.end());
    }
    CHECK(allocator.live == 0);
    return {plan, allocator.peak};
}

// A problem of one batch entry of plain attention.
attune::SdpaProblem problem_of(attune::DType dtype, std::int64_t query_heads, std::int64_t key_heads, std::int64_t queries,
                               std::int64_t keys, std::int64_t head_dim = 64) {
    return {.dtype = dtype,
            .batch = 1,
            .query_heads = query_heads,
            .key_heads = key_heads,
            .queries = queries,
            .keys = keys,
            .head_dim = head_dim,
            .value_dim = head_dim};
}

// The planned variant; without a name if it is not built.
attune::VariantInfo planned(const attune::SdpaProblem &problem) {
    attune::Plan plan;
    CHECK(attune::plan_sdpa(attune::Context(), problem, plan).ok());
    for (const attune::VariantInfo &v : attune::variants())
        if (v.name == plan.variant) return v;
    return {};
}
}  // namespace

TEST_CASE("plan: names the variant that runs, and bounds its scratch", "[runtime][plan]") {
    for (std::int64_t queries : {1, 2, 8, 9, 31, 33, 200})
        for (std::int64_t keys : {1, 10, 64, 65, 400})
            for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {32, 32}, {128, 128}, {48, 40}, {1, 1}})
                for (const auto &[query_heads, key_heads] : {std::pair(2, 2), {8, 2}}) {
                    const SdpaCase c{.batch = 1,
                                     .query_heads = query_heads,
                                     .key_heads = key_heads,
                                     .queries = queries,
                                     .keys = keys,
                                     .head_dim = head_dim,
                                     .value_dim = value_dim};
                    INFO(describe(c));
                    const auto [plan, peak] = plan_and_run<float>(c, 2);
                    INFO(plan.variant);
                    CHECK(peak <= plan.workspace_bytes);
                    if (queries % 2 == 0) {
                        const auto [wide, wide_peak] = plan_and_run<double>(c, 1);
                        INFO(wide.variant);
                        CHECK(wide_peak <= wide.workspace_bytes);
                    }
                    if (queries % 5 == 0) {
                        const auto [half, half_peak] = plan_and_run<Float16>(c, 2);
                        INFO(half.variant);
                        CHECK(half_peak <= half.workspace_bytes);
                    }
                    if (queries % 3 == 0) {
                        const auto [half, half_peak] = plan_and_run<BFloat16>(c, 2);
                        INFO(half.variant);
                        CHECK(half_peak <= half.workspace_bytes);
                    }
                }
}

TEST_CASE("plan: which options are given changes the variant, and the bound holds", "[runtime][plan]") {
    using Set = void (*)(SdpaCase &);
    const Set options[] = {[](SdpaCase &c) { c.softcap = 5; },
                           [](SdpaCase &c) { c.bias = "bhij"; },
                           [](SdpaCase &c) { c.mask = "ij"; },
                           [](SdpaCase &c) { c.alibi = Alibi::standard; },
                           [](SdpaCase &c) { c.sinks = true; },
                           [](SdpaCase &c) { c.dropout.probability = 0.5; },
                           [](SdpaCase &c) { c.dropout.probability = 1; },
                           [](SdpaCase &c) { c.dropout.probability = 0.1, c.bias = "ij"; },
                           [](SdpaCase &c) { c.score = attune::Score::cosine; },
                           [](SdpaCase &c) { c.score = attune::Score::gaussian, c.softcap = 5; },
                           [](SdpaCase &c) { c.score = attune::Score::general; }};
    for (const Set set : options)
        for (std::int64_t queries : {1, 3, 33, 200})
            for (std::int64_t keys : {10, 400})
                for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {48, 40}}) {
                    SdpaCase c{.batch = 1,
                               .query_heads = 4,
                               .key_heads = 2,
                               .queries = queries,
                               .keys = keys,
                               .head_dim = head_dim,
                               .value_dim = value_dim};
                    set(c);
                    INFO(describe(c));
                    const auto [plan, peak] = plan_and_run<float>(c, 2);
                    INFO(plan.variant);
                    CHECK(peak <= plan.workspace_bytes);
                }
}

TEST_CASE("plan: over random sizes and options it names the variant that runs", "[runtime][plan]") {
    const unsigned seed = 470007;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto one_of = [&](auto... choices) {
        const std::common_type_t<decltype(choices)...> all[] = {choices...};
        return all[random() % std::size(all)];
    };
    for (int n = 0; n < 300; n++) {
        SdpaCase c;
        c.batch = one_of(1, 1, 2), c.key_heads = one_of(1, 2), c.query_heads = c.key_heads * one_of(1, 1, 3, 4);
        c.queries = one_of(0, 1, 2, 4, 7, 17, 40, 70, 130, 200), c.keys = one_of(0, 1, 9, 64, 65, 200, 400, 650);
        c.head_dim = one_of(64, 64, 32, 17), c.value_dim = one_of(64, 64, int(c.head_dim), 20);
        c.causal = one_of(attune::Causal::none, attune::Causal::top_left, attune::Causal::bottom_right, attune::Causal::offset);
        if (c.causal == attune::Causal::offset || random() % 4 == 0) c.offset = int(random() % 500) - 100;
        c.window = {one_of(-1, 0, 5, 70, 600), one_of(-1, -1, 0, 3, 100, 600)};
        if (random() % 3 == 0) c.softcap = 4;
        if (random() % 4 == 0) c.alibi = Alibi::standard;
        if (random() % 4 == 0) c.bias = one_of("bhij", "ij", "1hi1");
        if (random() % 5 == 0) c.sinks = true;
        if (random() % 5 == 0) c.dropout.probability = 0.25;
        const bool halves = random() % 3 == 0;
        if (!halves && random() % 4 == 0) c.score = one_of(attune::Score::cosine, attune::Score::general);
        INFO(describe(c));
        if (halves)
            plan_and_run<BFloat16>(c, 2);
        else
            plan_and_run<float>(c, 2);
    }
}

TEST_CASE("plan: keys that a window hides do not count", "[runtime][plan]") {
    const auto plan_of = [](std::int64_t keys, std::int64_t window_keys) {
        attune::SdpaProblem problem = problem_of(attune::DType::f32, 1, 1, 256, keys);
        problem.window_keys = window_keys;
        attune::Plan plan;
        CHECK(attune::plan_sdpa(attune::Context(), problem, plan).ok());
        // Kernels of AMX copy all keys, whatever the window.
        std::map<std::string, double> times;
        for (const attune::PlanCandidate &c : plan.candidates)
            if (c.variant.find("_amx_") == std::string::npos) times[c.variant] = c.predicted_us;
        REQUIRE(!times.empty());
        return times;
    };
    for (const std::int64_t window : {1, 100, 600, 1500}) CHECK(plan_of(2047, window) == plan_of(5000, window));
    for (const std::int64_t window : {2048, 2049, 100000}) CHECK(plan_of(2048, window) == plan_of(2048, 0));
    for (const auto &[variant, time] : plan_of(2048, 100)) CHECK(time < plan_of(2048, 1000).at(variant));
}

TEST_CASE("plan: the variant is the one of least predicted time, or two share the queries", "[runtime][plan]") {
    const unsigned seed = 500003;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto one_of = [&](auto... choices) {
        const std::common_type_t<decltype(choices)...> all[] = {choices...};
        return all[random() % std::size(all)];
    };
    for (int n = 0; n < 400; n++) {
        attune::SdpaProblem p = problem_of(
            one_of(attune::DType::f32, attune::DType::f64, attune::DType::bf16, attune::DType::f16), one_of(4, 8), one_of(1, 4),
            one_of(1, 2, 7, 16, 33, 64, 100, 1000), one_of(1, 8, 49, 65, 200, 1000, 4096), one_of(32, 64, 72, 128, 256));
        p.causal = random() % 2, p.scored = random() % 3 == 0, p.dropout = random() % 5 == 0;
        attune::Plan plan, of_batch, of_threads;
        CHECK(attune::plan_sdpa(attune::Context(), p, plan).ok());
        INFO(name_of(p.dtype) << " h " << p.query_heads << '/' << p.key_heads << " q " << p.queries << " k " << p.keys << " d "
                              << p.head_dim << ' ' << plan.variant);
        REQUIRE(!plan.candidates.empty());
        const auto later = [](const attune::PlanCandidate &a, const attune::PlanCandidate &b) {
            return a.predicted_us < b.predicted_us;
        };
        CHECK(std::is_sorted(plan.candidates.begin(), plan.candidates.end(), later));
        if (plan.variant_of_last_queries.empty()) CHECK(plan.variant == plan.candidates.front().variant);
        p.batch = 64;
        CHECK(attune::plan_sdpa(attune::Context({.threads = 7}), p, of_batch).ok());
        CHECK(of_batch.variant == plan.variant);
        CHECK(of_batch.variant_of_last_queries == plan.variant_of_last_queries);
    }
}

TEST_CASE("plan: one query takes no tile of many queries, few queries none of one", "[runtime][plan]") {
    for (const attune::DType dtype : {attune::DType::f32, attune::DType::bf16, attune::DType::f16})
        for (const std::int64_t head_dim : {64, 128, 72}) {
            const auto plan = [&](std::int64_t key_heads, std::int64_t queries, std::int64_t keys) {
                return planned(problem_of(dtype, 32, key_heads, queries, keys, head_dim));
            };
            INFO(name_of(dtype) << " d " << head_dim);
            if (plan(8, 1, 1000).schedule != "decode") continue;  // it is not built
            for (const std::int64_t keys : {49, 1000}) CHECK(plan(32, 1, keys).schedule == "decode");
            // A tile that the queries of a group fill to a quarter takes as long, one of more rows 12 times as long on Zen 4.
            const attune::VariantInfo of_group = plan(8, 1, 49);
            INFO(of_group.name);
            CHECK((of_group.schedule == "decode" || (group_in_place(of_group) == 1 && tile_of(of_group) <= 4 * 32 / 8)));
            CHECK(plan(8, 1000, 1000).schedule != "decode");
        }
}

TEST_CASE("plan: copies for AMX tiles are of a bounded size", "[runtime][plan]") {
    const auto schedule = [&](attune::DType dtype, std::int64_t queries, std::int64_t keys) {
        return std::string(planned(problem_of(dtype, 2, 2, queries, keys)).schedule);
    };
    using attune::DType;
    if (schedule(DType::f32, 1024, 1024) != "amx") {
        WARN("SKIPPED: no kernels of AMX tiles run here");
        return;
    }
    CHECK(schedule(DType::bf16, 1024, 1024) == "amx");
    CHECK(schedule(DType::f16, 1024, 1024) == "amx");
    CHECK(schedule(DType::f32, 4096, 200000) != "amx");  // parts of 146 MiB
    CHECK(schedule(DType::bf16, 20, 200000) != "amx");   // 98 MiB
    CHECK(schedule(DType::bf16, 64, 200000) == "amx");
}

TEST_CASE("plan: of products, the variant is the one of least predicted time, or two share the columns", "[runtime][plan]") {
    const unsigned seed = 500004;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto one_of = [&](auto... choices) {
        const std::common_type_t<decltype(choices)...> all[] = {choices...};
        return all[random() % std::size(all)];
    };
    attune::Context context;
    for (int n = 0; n < 400; n++) {
        attune::ProductProblem p{
            .op = one_of(std::string_view("linear"), std::string_view("linear_packed"), std::string_view("batch_dot")),
            .dtype = one_of(attune::DType::f32, attune::DType::f64, attune::DType::bf16, attune::DType::f16),
            .entries = one_of(1, 96),
            .rows = one_of(1, 2, 7, 16, 33, 197, 1000),
            .columns = one_of(1, 20, 49, 64, 257, 1000, 4096),
            .depth = one_of(1, 2, 31, 64, 129, 1024)};
        attune::ProductPlan plan;
        CHECK(attune::plan_product(context, p, plan).ok());
        INFO(p.op << ' ' << name_of(p.dtype) << " rows " << p.rows << " columns " << p.columns << " depth " << p.depth << ' '
                  << plan.variant);
        REQUIRE(!plan.candidates.empty());
        if (plan.variant_of_last_columns.empty()) CHECK(plan.variant == plan.candidates.front().variant);
        // All sum in one order, so a row has the same bits among any others.
        const auto order = [](const std::string &name) {
            for (const attune::VariantInfo &v : attune::variants())
                if (v.name == name) return std::string(v.schedule == "amx_gemv" ? "amx" : v.schedule);
            return std::string();
        };
        for (const attune::PlanCandidate &c : plan.candidates) CHECK(order(c.variant) == order(plan.variant));
        p.rows = 1;
        attune::ProductPlan of_row;
        CHECK(attune::plan_product(context, p, of_row).ok());
        CHECK(order(of_row.variant) == order(plan.variant));
    }
    attune::ProductPlan plan;
    CHECK(attune::plan_product(context, {.op = "sdpa"}, plan).message() ==
          "op: must be \"linear\", \"linear_packed\" or \"batch_dot\", got \"sdpa\"");
    CHECK(attune::plan_product(context, {.rows = -1}, plan).code() == attune::StatusCode::invalid_argument);
}

TEST_CASE("plan: the bound is within 4 of what a larger problem takes", "[runtime][plan]") {
    for (int threads : {1, 2})
        for (const SdpaCase &c :
             {SdpaCase{.batch = 1, .query_heads = 4, .key_heads = 4, .queries = 512, .keys = 2048},
              SdpaCase{
                  .batch = 2, .query_heads = 2, .key_heads = 2, .queries = 300, .keys = 1000, .head_dim = 80, .value_dim = 80},
              SdpaCase{.batch = 1,
              .query_heads = 16,
              .key_heads = 4,
              .queries = 1,
              .keys = 20000,
              .head_dim = 128,
              .value_dim = 128},
              SdpaCase{.batch = 1, .query_heads = 8, .key_heads = 8, .queries = 1, .keys = 20000}}) {
            for (const auto &[plan, peak] :
                 {plan_and_run<float>(c, threads), plan_and_run<BFloat16>(c, threads), plan_and_run<Float16>(c, threads)}) {
                INFO(describe(c) << " threads " << threads << ' ' << plan.variant);
                CHECK(peak <= plan.workspace_bytes);
                // With two threads, one may have taken all tasks.
                if (threads == 1) CHECK(plan.workspace_bytes <= 4 * peak);
            }
        }
}

TEST_CASE("plan: bounds the scratch of every variant under a mask", "[runtime][plan]") {
    for_each_variant_and_head_size([](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        for (std::int64_t queries : {1, 65}) {
            SdpaCase c{.query_heads = 4,
                       .key_heads = 2,
                       .queries = queries,
                       .keys = 2 * kv_block_of(v) + 1,
                       .head_dim = head_dim,
                       .value_dim = value_dim,
                       .causal = attune::Causal::bottom_right};
            c.valid_lens.assign(std::size_t(2 * queries), std::int32_t(c.keys));
            setenv("ATTUNE_FORCE_VARIANT", std::string(v.name).c_str(), 1);
            const auto [plan, peak] = plan_and_run<decltype(zero)>(c, 2);
            unsetenv("ATTUNE_FORCE_VARIANT");
            INFO(describe(c));
            CHECK(plan.variant == v.name);
            CHECK(peak <= plan.workspace_bytes);
        }
    });
}

TEST_CASE("plan: without queries or keys it still answers", "[runtime][plan]") {
    attune::Context context;
    attune::Plan plan;
    CHECK(attune::plan_sdpa(context, {.queries = 0}, plan).ok());
    CHECK(attune::plan_sdpa(context, {.keys = 0}, plan).ok());
    CHECK(plan.workspace_bytes == 0);
    CHECK(attune::plan_sdpa(context, {.batch = 0, .query_heads = 0, .key_heads = 0}, plan).ok());
}

namespace {
// Whether rows [begin, end) of batch entry n have the same bits in both.
template<typename T> bool same_rows(SdpaArrays<T> &a, SdpaArrays<T> &b, std::int64_t n, std::int64_t begin, std::int64_t end) {
    bool same = true;
    for (std::int64_t h = 0; h < a.the.query_heads; h++)
        for (std::int64_t i = begin; i < end; i++) same = same && same_row(a, b, n, h, i);
    return same;
}

// Whether another variant computes the last queries of some entry; checks that these have its bits, and the others those of the
// first variant.
template<typename T> bool shares_queries(const SdpaCase &c) {
    const auto [plan, peak] = plan_and_run<T>(c, 2);
    INFO(describe(c) << ' ' << plan.variant << ' ' << plan.variant_of_last_queries);
    const std::size_t bound = c.valid_lens.empty() ? plan.workspace_bytes : plan.workspace_bytes_of_any_lengths;
    if (c.mask.empty() || c.mask.back() == 'j') CHECK(peak <= bound);  // others are copied, dense along keys
    attune::Context context({.threads = 2});
    SdpaArrays<T> both(c);
    CHECK(both.run(context).ok());
    bool shares = false;
    for (std::int64_t n = 0; n < c.batch; n++) {
        const SdpaCase held = held_by(c, n);
        attune::Plan of_entry;
        CHECK(attune::plan_sdpa(context, problem_of(held, attune::dtype_of<T>()), of_entry).ok());
        if (of_entry.variant_of_last_queries.empty()) continue;
        SdpaArrays<T> first(c), last(c);
        CHECK(first.run(context, of_entry.variant).ok());
        CHECK(last.run(context, of_entry.variant_of_last_queries).ok());
        const std::int64_t tile = tile_of(planned(problem_of(held, attune::dtype_of<T>())));
        const std::int64_t end_of_tiles = c.queries / tile * tile;
        INFO("entry " << n << ' ' << of_entry.variant << ' ' << of_entry.variant_of_last_queries);
        CHECK(end_of_tiles > 0);
        CHECK(end_of_tiles < c.queries);
        CHECK(same_rows(both, first, n, 0, end_of_tiles));
        CHECK(same_rows(both, last, n, end_of_tiles, c.queries));
        shares = true;
    }
    return shares;
}
}  // namespace

TEST_CASE("plan: the last queries, which fill no tile of the best variant, are another's", "[runtime][plan]") {
    std::vector<SetOption> options = option_sets::everything();
    options.push_back([](SdpaCase &) {});
    options.push_back([](SdpaCase &c) { c.causal = attune::Causal::bottom_right; });
    options.push_back([](SdpaCase &c) { c.window = {400, 250}; });
    options.push_back([](SdpaCase &c) {
        for (std::int64_t n = 0; n < c.batch * c.queries; n++) c.valid_lens.push_back(std::int32_t(n * 37 % (c.keys + 1)));
    });
    options.push_back([](SdpaCase &c) {
        c.valid_lens = {std::int32_t(c.keys / 3), std::int32_t(c.keys)}, c.strided_lse = true;
        c.query_layout = c.key_layout = c.value_layout = c.out_layout = Layout::bshd;
    });
    int shared = 0;
    for (const SetOption &set_option : options)
        for (std::int64_t queries : {37, 129, 197})
            for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {48, 40}}) {
                SdpaCase c{.query_heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = 700,
                           .head_dim = head_dim,
                           .value_dim = value_dim};
                set_option(c);
                shared += shares_queries<float>(c) + shares_queries<double>(c);
                shared += shares_queries<Float16>(c) + shares_queries<BFloat16>(c);
            }
    if (shared == 0) WARN("SKIPPED: no variant that runs here leaves queries to another");
}

TEST_CASE("plan: candidates are of every class of a schedule", "[runtime][plan]") {
    attune::Context context;
    attune::Plan plan;
    REQUIRE(attune::plan_sdpa(context, problem_of(attune::DType::f32, 8, 8, 64, 2048), plan).ok());
    const auto is_named = [&](std::string_view name) {
        return std::any_of(plan.candidates.begin(), plan.candidates.end(),
                           [&](const attune::PlanCandidate &c) { return c.variant == name; });
    };
    const std::vector<attune::VariantInfo> all = attune::variants();
    const auto chosen = std::find_if(all.begin(), all.end(), [&](const auto &v) { return v.name == plan.variant; });
    REQUIRE(chosen != all.end());
    for (const attune::VariantInfo &v : all) {
        const bool is_like = v.op == "sdpa" && v.dtype == attune::DType::f32 && v.kind == "plain" && v.schedule == "prefill";
        if (!is_like || !v.dispatched || v.head_dim != 64 || v.target != chosen->target) continue;
        CAPTURE(v.name);
        CHECK(is_named(v.name));
    }
}
