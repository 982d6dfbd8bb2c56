// SPDX-License-Identifier: MIT
// Bad input of variable_length_attention, kv_append, merge_attention and cache_lens: refused by name and number, and nothing is
// written.
#include "attune/attune.h"
#include "tests/support/merge_case.h"
#include "tests/support/packed_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {
const std::vector<std::int32_t> zeros(64, 0);

// A call of three sequences, of 2, 0 and 3 queries and 4, 1 and 0 keys; three spare rows.
struct PackedCall {
    PackedArrays<float> arrays{{.queries = {2, 0, 3}, .keys = {4, 1, 0}}};
    ConstView query = arrays.query.view(), key = arrays.key.view(), value = arrays.value.view();
    ConstView cu_q = arrays.cu_seqlens_q(), cu_k = arrays.cu_seqlens_k();
    View out = arrays.out.view();
    attune::SdpaOptions options{.lse = arrays.lse.view()};
    attune::Context context;
    attune::Status run() { return attune::variable_length_attention(context, query, key, value, cu_q, cu_k, out, options); }
    bool untouched() { return arrays.out.untouched() && arrays.lse.untouched(); }
};
struct AppendCall {
    std::vector<std::int32_t> held = {3, 8};
    Array<float> keys{{2, 2, 3, 8}, Layout::dense}, values{{2, 2, 3, 6}, Layout::dense};
    Array<float> key_memory{{2, 2, 12, 8}, Layout::dense}, value_memory{{2, 2, 12, 6}, Layout::dense};
    ConstView key = keys.view(), value = values.view(), cache_lens{held.data(), {2}};
    View key_cache = key_memory.view(), value_cache = value_memory.view();
    attune::KvAppendOptions options;
    attune::Context context;
    attune::Status run() { return attune::kv_append(context, key, value, cache_lens, key_cache, value_cache, options); }
    bool untouched() { return key_memory.untouched() && value_memory.untouched(); }
};
struct MergeCall {
    MergeArrays<float> arrays{{.batch = 2, .heads = 3, .queries = 4, .value_dim = 8}};
    ConstView out_a = arrays.out_a.view(), out_b = arrays.out_b.view(), lse_a = arrays.lse_a.view(),
              lse_b = arrays.lse_b.view();
    View out = arrays.out.view(), lse = arrays.lse.view();
    attune::Context context;
    attune::Status run() { return attune::merge_attention(context, out_a, lse_a, out_b, lse_b, out, lse); }
    bool untouched() { return arrays.out.untouched() && arrays.lse.untouched(); }
};

template<typename F> void refuses_packed(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<PackedCall>(invalid, argument, parts, f);
}
template<typename F> void refuses_append(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<AppendCall>(invalid, argument, parts, f);
}
template<typename F> void refuses_merge(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<MergeCall>(invalid, argument, parts, f);
}
}  // namespace

TEST_CASE("bad packed batches: tensors", "[varlen][bad_input]") {
    refuses_packed("query", {"rank", "3", "4"}, [](PackedCall &c) { c.query = {floats.data(), {1, 8, 4, 16}}; });
    refuses_packed("key", {"rank", "3", "2"}, [](PackedCall &c) { c.key = {floats.data(), {8, 16}}; });
    refuses_packed("key", {"f64", "f32"}, [](PackedCall &c) { c.key = {doubles.data(), {8, 2, 16}}; });
    refuses_packed("key", {"head size", "15", "16"}, [](PackedCall &c) { c.key = {floats.data(), {8, 2, 15}}; });
    refuses_packed("key", {"heads", "3", "4"}, [](PackedCall &c) { c.key = {floats.data(), {8, 3, 16}}, c.value = c.key; });
    refuses_packed("value", {"keys", "7", "8"}, [](PackedCall &c) { c.value = {floats.data(), {7, 2, 16}}; });
    refuses_packed("value", {"heads", "1", "2"}, [](PackedCall &c) { c.value = {floats.data(), {8, 1, 16}}; });
    refuses_packed("out", {"queries", "7", "8"}, [](PackedCall &c) { c.out.extent[0] = 7; });
    refuses_packed("out", {"head size", "15", "16"}, [](PackedCall &c) { c.out.extent[2] = 15; });
    refuses_packed("query", {"extent 0", "-1"}, [](PackedCall &c) { c.query.extent[0] = -1; });
    refuses_packed("query", {"null"}, [](PackedCall &c) { c.query.data = nullptr; });
    refuses_packed("query", {"last stride", "2"}, [](PackedCall &c) { c.query.stride[2] = 2; });
    refuses_packed("out", {"overlap"}, [](PackedCall &c) { c.out.stride[0] = 8; });
    refuses_packed("out", {"overlaps query"}, [](PackedCall &c) { c.query = c.out; });
    refuses_packed("lse", {"overlaps out"}, [](PackedCall &c) { c.options.lse.data = c.out.data; });
}

TEST_CASE("bad packed batches: where sequences end", "[varlen][bad_input]") {
    static std::vector<std::int32_t> ends;
    const auto with = [&](bool of_keys, std::vector<std::int32_t> wrong) {
        return [of_keys, wrong](PackedCall &c) {
            ends = wrong;
            (of_keys ? c.cu_k : c.cu_q) = ConstView(ends.data(), {std::int64_t(ends.size())});
        };
    };
    refuses_packed("cu_seqlens_q", {"entry (0)", "0", "1"}, with(false, {1, 2, 2, 5}));
    refuses_packed("cu_seqlens_q", {"entry (0)", "-3"}, with(false, {-3, 2, 2, 5}));
    refuses_packed("cu_seqlens_q", {"entry (2)", "1", "2"}, with(false, {0, 2, 1, 5}));
    refuses_packed("cu_seqlens_q", {"entry (1)", "-1", "0"}, with(false, {0, -1, 2, 5}));
    refuses_packed("cu_seqlens_q", {"entry (3)", "9", "8", "query"}, with(false, {0, 2, 2, 9}));
    refuses_packed("cu_seqlens_k", {"entry (3)", "2147483647", "8", "key"}, with(true, {0, 4, 5, 2147483647}));
    refuses_packed("cu_seqlens_k", {"entry (3)", "4", "5"}, with(true, {0, 4, 5, 4}));
    refuses_packed("cu_seqlens_k", {"entries", "3", "4"}, with(true, {0, 4, 5}));
    refuses_packed("cu_seqlens_q", {"at least 1"}, with(false, {}));
    refuses_packed("cu_seqlens_q", {"rank", "1"}, [](PackedCall &c) { c.cu_q = {zeros.data(), {2, 2}}; });
    refuses_packed("cu_seqlens_q", {"rank", "0"}, [](PackedCall &c) { c.cu_q = {}; });
    refuses_packed("cu_seqlens_k", {"i32", "f32"}, [](PackedCall &c) { c.cu_k = {floats.data(), {4}}; });
    refuses_packed("cu_seqlens_k", {"null"}, [](PackedCall &c) { c.cu_k.data = nullptr; });
}

TEST_CASE("bad packed batches: options", "[varlen][bad_input]") {
    static const bool yes[64] = {};
    const std::string packed = "packed batches";
    refuses_packed("score", {"general", packed}, [](PackedCall &c) { c.options.score = attune::Score::general; });
    refuses_packed("bias", {packed}, [](PackedCall &c) { c.options.bias = {floats.data(), {8, 8}}; });
    refuses_packed("mask", {packed}, [](PackedCall &c) { c.options.mask = {yes, {8, 8}}; });
    refuses_packed("valid_lens", {packed}, [](PackedCall &c) { c.options.valid_lens = {zeros.data(), {3}}; });
    refuses_packed("cache_lens", {packed}, [](PackedCall &c) { c.options.cache_lens = {zeros.data(), {3}}; });
    refuses_packed("weights", {packed}, [](PackedCall &c) { c.options.weights = c.out; });
    refuses_packed("score_weight", {"general"}, [](PackedCall &c) { c.options.score_weight = {floats.data(), {16, 16}}; });
    refuses_packed("lse", {"rank", "2", "3"}, [](PackedCall &c) { c.options.lse = c.out; });
    refuses_packed("lse", {"heads", "3", "4"}, [](PackedCall &c) { c.options.lse.extent[0] = 3; });
    refuses_packed("lse", {"queries", "7", "8"}, [](PackedCall &c) { c.options.lse.extent[1] = 7; });
    refuses_packed("offsets", {"batch", "2", "3"}, [](PackedCall &c) { c.options.offsets = {zeros.data(), {2}}; });
    refuses_packed("offsets", {"i32", "f32"}, [](PackedCall &c) { c.options.offsets = {floats.data(), {3}}; });
    refuses_packed("offsets", {"offset"}, [](PackedCall &c) { c.options.offset = 1, c.options.offsets = {zeros.data(), {3}}; });
    refuses_packed("offset", {"Causal::offset"}, [](PackedCall &c) { c.options.causal = attune::Causal::offset; });
    refuses_packed("alibi_slopes", {"batch", "2", "3"}, [](PackedCall &c) {
        c.options.alibi_slopes = {floats.data(), {2, 4}};
    });
    refuses_packed("alibi_slopes", {"heads", "5", "4"}, [](PackedCall &c) {
        c.options.alibi_slopes = {floats.data(), {3, 5}};
    });
    refuses_packed("window", {"left", "-2"}, [](PackedCall &c) { c.options.window.left = -2; });
    refuses_packed("dropout", {"1.5"}, [](PackedCall &c) { c.options.dropout.probability = 1.5; });
    refuses_packed("sinks", {"heads", "3", "4"}, [](PackedCall &c) { c.options.sinks = {floats.data(), {3}}; });
    refuses_packed("variant", {"no variant"}, [](PackedCall &c) { c.options.variant = "sdpa_of_nobody"; });
}

TEST_CASE("bad kv_append", "[kv_cache][bad_input]") {
    static const std::vector<std::int32_t> lens = {-1, 13, 12, 10, 4};
    const auto entries = [](int first, int second) {
        return [=](AppendCall &c) { c.held = {lens[std::size_t(first)], lens[std::size_t(second)]}; };
    };
    refuses_append("key", {"rank", "4", "3"}, [](AppendCall &c) { c.key = {floats.data(), {2, 3, 8}}; });
    refuses_append("value", {"f64", "f32"}, [](AppendCall &c) { c.value = {doubles.data(), {2, 2, 3, 6}}; });
    refuses_append("key", {"i32"}, [](AppendCall &c) { c.key = {zeros.data(), {1, 1, 1, 8}}; });
    refuses_append("value", {"rows", "2", "3"}, [](AppendCall &c) { c.value.extent[2] = 2; });
    refuses_append("value", {"heads", "1", "2"}, [](AppendCall &c) { c.value.extent[1] = 1; });
    refuses_append("value", {"batch", "1", "2"}, [](AppendCall &c) { c.value.extent[0] = 1; });
    refuses_append("key_cache", {"head size", "7", "8"}, [](AppendCall &c) { c.key_cache.extent[3] = 7; });
    refuses_append("value_cache", {"head size", "5", "6"}, [](AppendCall &c) { c.value_cache.extent[3] = 5; });
    refuses_append("value_cache", {"capacity", "11", "12"}, [](AppendCall &c) { c.value_cache.extent[2] = 11; });
    refuses_append("key_cache", {"heads", "1", "2"}, [](AppendCall &c) { c.key_cache.extent[1] = 1; });
    refuses_append("key_cache", {"batch", "1", "2"}, [](AppendCall &c) { c.key_cache.extent[0] = 1; });
    refuses_append("key_cache", {"null"}, [](AppendCall &c) { c.key_cache.data = nullptr; });
    refuses_append("key_cache", {"last stride"}, [](AppendCall &c) { c.key_cache.stride[3] = 2; });
    refuses_append("cache_lens", {"entry (0)", "-1", "12", "capacity"}, entries(0, 4));
    refuses_append("cache_lens", {"entry (1)", "13", "12", "capacity"}, entries(4, 1));
    refuses_append("cache_lens", {"entry (1)", "10", "3", "12"}, entries(4, 3));
    refuses_append("cache_lens", {"batch", "1", "2"}, [](AppendCall &c) { c.cache_lens.extent[0] = 1; });
    refuses_append("cache_lens", {"i32", "f32"}, [](AppendCall &c) { c.cache_lens = {floats.data(), {2}}; });
    refuses_append("cache_lens", {"rank", "0"}, [](AppendCall &c) { c.cache_lens = {}; });
    refuses_append("new_lens", {"entry (0)", "4", "3"}, [](AppendCall &c) { c.options.new_lens = {&lens[4], {2}, {0}}; });
    refuses_append("new_lens", {"entry (0)", "-1"}, [](AppendCall &c) { c.options.new_lens = {&lens[0], {2}}; });
    refuses_append("when_full", {"7"}, [](AppendCall &c) { c.options.when_full = static_cast<attune::CacheWhenFull>(7); });
    refuses_append("value_cache", {"overlaps key_cache"},
                   [](AppendCall &c) { c.value_cache = c.key_cache, c.value_cache.extent[3] = 6; });
    refuses_append("key_cache", {"overlaps key"}, [](AppendCall &c) { c.key = c.key_cache, c.key.extent[2] = 3; });
    refuses_append("key_cache", {"overlap each other"}, [](AppendCall &c) { c.key_cache.stride[1] = 0; });
}

TEST_CASE("bad merge_attention", "[merge][bad_input]") {
    refuses_merge("out_a", {"rank", "1"}, [](MergeCall &c) { c.out_a = {floats.data(), {8}}; });
    refuses_merge("out_a", {"i32"}, [](MergeCall &c) { c.out_a = {zeros.data(), {2, 8}}; });
    refuses_merge("out_b", {"rank", "3", "4"}, [](MergeCall &c) { c.out_b = {floats.data(), {6, 4, 8}}; });
    refuses_merge("out_b", {"f64", "f32"}, [](MergeCall &c) { c.out_b = {doubles.data(), {2, 3, 4, 8}}; });
    refuses_merge("out_b", {"extent 3", "7", "8"}, [](MergeCall &c) { c.out_b.extent[3] = 7; });
    refuses_merge("out", {"extent 0", "1", "2"}, [](MergeCall &c) { c.out.extent[0] = 1; });
    refuses_merge("lse_a", {"rank", "3", "2"}, [](MergeCall &c) { c.lse_a = {floats.data(), {3, 4}}; });
    refuses_merge("lse_a", {"rank", "0"}, [](MergeCall &c) { c.lse_a = {}; });
    refuses_merge("lse_b", {"f32", "f64"}, [](MergeCall &c) { c.lse_b = {doubles.data(), {2, 3, 4}}; });
    refuses_merge("lse_b", {"extent 2", "5", "4"}, [](MergeCall &c) { c.lse_b = {floats.data(), {2, 3, 5}}; });
    refuses_merge("lse", {"extent 1", "2", "3"}, [](MergeCall &c) { c.lse.extent[1] = 2; });
    refuses_merge("out", {"last stride", "2"}, [](MergeCall &c) { c.out.stride[3] = 2; });
    refuses_merge("out", {"null"}, [](MergeCall &c) { c.out.data = nullptr; });
    // The very view of an input may be an output; another view of its memory may not.
    refuses_merge("out", {"overlaps out_a"}, [](MergeCall &c) {
        c.out_a = c.out;
        c.out_a.data = static_cast<float *>(c.out.data) + 8;
    });
    refuses_merge("lse", {"overlaps lse_b"}, [](MergeCall &c) {
        c.lse_b = c.lse;
        c.lse_b.stride[0] = 4, c.lse_b.stride[1] = 8;
    });
    refuses_merge("lse", {"overlaps out"}, [](MergeCall &c) { c.lse.data = c.out.data; });
}

TEST_CASE("bad merge_attention of parts", "[merge][bad_input]") {
    struct PartsCall {
        MergeArrays<float> arrays{{.batch = 2, .heads = 3, .queries = 4, .value_dim = 8}};
        std::vector<attune::PartialAttention> parts = {{arrays.out_a.view(), arrays.lse_a.view()},
                                                       {arrays.out_b.view(), arrays.lse_b.view()},
                                                       {arrays.out_a.view(), arrays.lse_b.view()}};
        std::size_t count = 3;
        bool null = false;
        View out = arrays.out.view(), lse = arrays.lse.view();
        attune::Context context;
        attune::Status run() { return attune::merge_attention(context, null ? nullptr : parts.data(), count, out, lse); }
        bool untouched() { return arrays.out.untouched() && arrays.lse.untouched(); }
    };
    const auto refuses_parts = [](const std::string &argument, const std::vector<std::string> &texts, auto f) {
        refuses<PartsCall>(invalid, argument, texts, f);
    };
    refuses_parts("count", {"1", "0"}, [](PartsCall &c) { c.count = 0; });
    refuses_parts("parts", {"null"}, [](PartsCall &c) { c.null = true; });
    refuses_parts("parts[0].out", {"rank", "1"}, [](PartsCall &c) { c.parts[0].out = {floats.data(), {8}}; });
    refuses_parts("parts[2].out", {"rank", "3", "4"}, [](PartsCall &c) { c.parts[2].out = {floats.data(), {6, 4, 8}}; });
    refuses_parts("parts[1].out", {"f64", "f32"}, [](PartsCall &c) { c.parts[1].out = {doubles.data(), {2, 3, 4, 8}}; });
    refuses_parts("parts[2].out", {"extent 3", "7", "8"}, [](PartsCall &c) { c.parts[2].out.extent[3] = 7; });
    refuses_parts("parts[2].lse", {"rank", "0"}, [](PartsCall &c) { c.parts[2].lse = {}; });
    refuses_parts("parts[1].lse", {"extent 2", "5", "4"}, [](PartsCall &c) { c.parts[1].lse = {floats.data(), {2, 3, 5}}; });
    refuses_parts("out", {"overlaps parts[2].out"}, [](PartsCall &c) {
        c.parts[2].out = c.out;
        c.parts[2].out.data = static_cast<float *>(c.out.data) + 8;
    });
    refuses_parts("lse", {"overlaps out"}, [](PartsCall &c) { c.lse.data = c.out.data; });
}

TEST_CASE("bad cache_lens", "[kv_cache][bad_input]") {
    static const std::vector<std::int32_t> lens = {0, -1, 3, 2};
    const auto with = [](int first, std::int64_t count) {
        return [=](SpoiledCall &c) { c.options.cache_lens = {lens.data() + first, {count}}; };
    };
    refused(invalid, "cache_lens", {"entry (1)", "-1", "2"}, with(0, 2));
    refused(invalid, "cache_lens", {"entry (0)", "3", "2"}, with(2, 2));
    refused(invalid, "cache_lens", {"batch", "3", "2"}, with(0, 3));
    refused(invalid, "cache_lens", {"i32", "f32"}, [](SpoiledCall &c) { c.options.cache_lens = {floats.data(), {2}}; });
    refused(invalid, "cache_lens", {"rank", "2"}, [](SpoiledCall &c) { c.options.cache_lens = {zeros.data(), {2, 3}}; });
    refused(invalid, "cache_lens", {"null"}, [](SpoiledCall &c) {
        c.options.cache_lens = {static_cast<const std::int32_t *>(nullptr), {2}};
    });
    for (const std::string other : {"valid_lens", "offset", "offsets"})
        refused(invalid, "cache_lens", {other}, [&](SpoiledCall &c) {
            c.options.cache_lens = {zeros.data(), {2}};
            if (other == "valid_lens") c.options.valid_lens = {zeros.data(), {2}};
            if (other == "offset") c.options.offset = 1;
            if (other == "offsets") c.options.offsets = {zeros.data(), {2}};
        });
    refused(invalid, "cache_lens", {"2", "3"}, [](SpoiledCall &c) {
        c.options.cache_lens = {zeros.data(), {2}};
        c.key.extent[2] = c.value.extent[2] = 2;
        c.options.weights = {};
    });
}
