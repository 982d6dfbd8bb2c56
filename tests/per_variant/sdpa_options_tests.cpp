// Every variant that knows them against the reference: boolean masks, biases, ALiBi, softcap and sinks, alone and together.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <functional>

using namespace attune_test;
using attune::Causal;

namespace {
constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// What an option sets; sizes are set before it, for four query heads on two key heads.
using SetOption = std::function<void(SdpaCase &)>;

std::vector<SetOption> boolean_masks() {
    std::vector<SetOption> all;
    for (const char *shape : {"bhij", "hij", "ij", "j", "i1", "b11j", "1hi1", "b1ij", "b111", "1111", "b1i1"})
        all.push_back([shape](SdpaCase &c) { c.mask = shape; });
    all.push_back([](SdpaCase &c) { c.mask = "b1ij", c.strided_masks = true; });
    all.push_back([](SdpaCase &c) { c.mask = "ij", c.causal = Causal::bottom_right; });
    all.push_back([](SdpaCase &c) { c.mask = "hij", c.window = {5, 4}, c.valid_lens = {0, std::int32_t(c.keys)}; });
    return all;
}
std::vector<SetOption> biases() {
    std::vector<SetOption> all;
    for (const char *shape : {"bhij", "hij", "ij", "j", "i1", "b11j", "1h1j", "b1ij", "1h11", "b1i1"})
        all.push_back([shape](SdpaCase &c) { c.bias = shape; });
    for (double hole : {minus_infinity, -3.4e38, -1e9})
        for (const char *shape : {"bhij", "ij", "1hi1", "b11j"})
            all.push_back([=](SdpaCase &c) { c.bias = shape, c.hole = hole; });
    all.push_back([](SdpaCase &c) { c.bias = "bhij", c.strided_masks = true, c.hole = minus_infinity; });
    all.push_back([](SdpaCase &c) { c.bias = "ij", c.causal = Causal::bottom_right, c.hole = -3.4e38; });
    all.push_back([](SdpaCase &c) {
        c.bias = "b1ij", c.mask = "hij", c.window = {-1, 6}, c.valid_lens = {std::int32_t(c.keys), 1};
    });
    return all;
}
std::vector<SetOption> alibis() {
    std::vector<SetOption> all;
    for (Alibi alibi : {Alibi::standard, Alibi::per_head, Alibi::per_batch}) {
        all.push_back([=](SdpaCase &c) { c.alibi = alibi; });
        all.push_back([=](SdpaCase &c) { c.alibi = alibi, c.causal = Causal::top_left, c.strided_masks = true; });
        all.push_back([=](SdpaCase &c) { c.alibi = alibi, c.causal = Causal::bottom_right; });
    }
    for (std::int64_t heads : {1, 3, 6, 12})  // the standard slopes of heads that are no power of two
        all.push_back([=](SdpaCase &c) { c.query_heads = heads, c.key_heads = 1, c.alibi = Alibi::standard; });
    all.push_back([](SdpaCase &c) { c.alibi = Alibi::standard, c.offset = 3; });
    all.push_back([](SdpaCase &c) {
        c.alibi = Alibi::standard, c.offsets = {-2, std::int32_t(c.keys)}, c.causal = Causal::offset;
    });
    all.push_back([](SdpaCase &c) {
        c.alibi = Alibi::per_head, c.valid_lens = {std::int32_t(c.keys / 2), 0}, c.window = {9, 9};
    });
    return all;
}
std::vector<SetOption> caps_and_sinks() {
    std::vector<SetOption> all;
    for (double cap : {30.0, 5.0, 0.5, 1e-3, 1e6}) all.push_back([=](SdpaCase &c) { c.softcap = cap; });
    all.push_back([](SdpaCase &c) { c.softcap = 2, c.scale = 40.0, c.causal = Causal::bottom_right; });  // tanh is at its ends
    all.push_back([](SdpaCase &c) { c.sinks = true; });
    all.push_back([](SdpaCase &c) { c.sinks = c.strided_masks = true, c.causal = Causal::offset, c.offset = -2; });
    all.push_back([](SdpaCase &c) { c.sinks = true, c.valid_lens = {0, std::int32_t(c.keys / 2)}; });
    all.push_back([](SdpaCase &c) { c.sinks = true, c.mask = "ij", c.scale = -1.0; });
    return all;
}
std::vector<SetOption> everything() {
    const SetOption all = [](SdpaCase &c) {
        c.softcap = 6, c.bias = "hij", c.hole = minus_infinity, c.alibi = Alibi::standard, c.mask = "b1ij", c.sinks = true;
    };
    return {all,
            [=](SdpaCase &c) {
                all(c), c.causal = Causal::bottom_right, c.window = {c.keys / 2, -1};
            },
            [=](SdpaCase &c) {
                all(c), c.causal = Causal::top_left, c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 3)};
                c.strided_masks = c.strided_lse = true;
            },
            [=](SdpaCase &c) {
                all(c), c.causal = Causal::offset, c.offsets = {std::int32_t(c.keys / 2), -1}, c.alibi = Alibi::per_batch;
                c.query_layout = c.out_layout = Layout::bshd, c.key_layout = Layout::padded, c.value_layout = Layout::fused;
            },
            [=](SdpaCase &c) { all(c), c.query_heads = 6, c.key_heads = 2, c.scale = -0.7; },
            [=](SdpaCase &c) { all(c), c.query_heads = 8, c.key_heads = 1, c.bias = "b11j", c.mask = "1hi1"; }};
}

void check_options(const std::vector<SetOption> &options) {
    attune::Context context({.threads = 2});
    for_each_variant("sdpa", knows_scores, [&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t tile = tile_of(v), chunk = chunk_of(v);
        unsigned seed = 2000;
        // One row over chunks, less than a tile and a chunk, over tiles and chunks.
        for (const auto &[queries, keys] : {std::pair(std::int64_t(1), chunk + 5), {6, 9}, {tile + 1, chunk + 3}})
            for (const SetOption &set_option : options) {
                SdpaCase c{.query_heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = keys,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .seed = seed++};
                if (queries * keys > 2000) c.query_heads = 2, c.key_heads = 1;  // for time
                set_option(c);
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}
}  // namespace

TEST_CASE("variants: boolean masks of every shape", "[sdpa][per_variant]") { check_options(boolean_masks()); }
TEST_CASE("variants: biases of every shape, some masking", "[sdpa][per_variant]") { check_options(biases()); }
TEST_CASE("variants: ALiBi by standard and given slopes", "[sdpa][per_variant]") { check_options(alibis()); }
TEST_CASE("variants: softcap and sinks", "[sdpa][per_variant]") { check_options(caps_and_sinks()); }
TEST_CASE("variants: every option of the score together", "[sdpa][per_variant]") { check_options(everything()); }

TEST_CASE("variants: rows without keys keep their sink", "[sdpa][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_variant("sdpa", knows_scores, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        for (const auto &[queries, keys] : {std::pair(1, chunk_of(v) + 1), {tile_of(v) + 1, 19}})
            for (int way : {0, 1, 2}) {
                SdpaCase c{.query_heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = keys,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .sinks = true};
                if (way == 0) c.valid_lens = {0, 0};
                if (way == 1) c.mask = "1111";
                if (way == 2) c.bias = "1111", c.hole = minus_infinity;
                SdpaArrays<T> a(c);
                a.mask.each([](bool &x) { x = false; });
                a.bias.each([](T &x) { x = T(minus_infinity); });
                for (Array<T> *array : {&a.query, &a.key, &a.value})
                    array->each([](T &x) { x = std::numeric_limits<T>::quiet_NaN(); });
                const auto status = a.run(context, v.name);
                INFO(describe(c) << ' ' << status.message());
                CHECK(status.ok());
                bool right = true;
                a.out.each([&](T &x) { right = right && x == 0; });
                const auto sinks = a.sinks.values();
                for (std::int64_t b = 0; b < c.batch; b++)
                    for (std::int64_t h = 0; h < c.query_heads; h++)
                        for (std::int64_t i = 0; i < c.queries; i++)
                            right = right && std::abs(a.lse(b, h, i) - sinks[std::size_t(h)]) <= 1e-6;
                CHECK(right);
            }
    });
}

TEST_CASE("variants: a kind that lacks an option refuses it by name", "[sdpa][per_variant]") {
    attune::Context context;
    const auto refuse = [&](const std::vector<std::string_view> &kinds, const SetOption &set_option) {
        for_each_variant("sdpa", kinds, [&](const attune::VariantInfo &v, auto zero) {
            const auto [head_dim, value_dim] = head_size(v);
            SdpaCase c{.head_dim = head_dim, .value_dim = value_dim};
            set_option(c);
            SdpaArrays<decltype(zero)> a(c);
            const auto status = a.run(context, v.name);
            INFO(describe(c) << ' ' << status.message());
            CHECK(status.code() == attune::StatusCode::invalid_argument);
            CHECK(status.message().rfind("variant:", 0) == 0);
            CHECK(status.message().find(v.name) != std::string::npos);
            CHECK(a.out.untouched());
            CHECK(a.lse.untouched());
        });
    };
    for (const SetOption &set_option :
         {SetOption([](SdpaCase &c) { c.softcap = 3; }), SetOption([](SdpaCase &c) { c.bias = "j"; }),
          SetOption([](SdpaCase &c) { c.alibi = Alibi::standard; }), SetOption([](SdpaCase &c) { c.mask = "ij"; }),
          SetOption([](SdpaCase &c) { c.sinks = true; })})
        refuse({"plain"}, set_option);
    refuse({"plain", "scored"}, [](SdpaCase &c) { c.dropout.probability = 0.5; });
    refuse(writes_weights, [](SdpaCase &) {});  // no weights are asked for
}
