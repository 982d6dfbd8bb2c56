// SPDX-License-Identifier: MIT
#include "c_api/user_captures.h"

using namespace attune;
using namespace attune::c_api;

attune_status attune_user_attention(attune_context *context, const char *name, const attune_tensor *query,
                                    const attune_tensor *key, const attune_tensor *value, const attune_tensor *out,
                                    const attune_capture *captures, size_t captures_count, attune_block_mask *block_mask,
                                    const attune_sdpa_options *options) {
    return run(context, [&](Reader &reader, Context &of_calls) -> Status {
        const detail::AttentionRecord *attention = attention_of(reader, name);
        if (!attention) return reader.status();
        const ConstView query_given = reader.input(query, {"query"}), key_given = reader.input(key, {"key"}),
                        value_given = reader.input(value, {"value"});
        const View out_given = reader.output(out, {"out"});
        const auto captures_given = read_captures(reader, *attention, captures, captures_count);
        const SdpaOptions options_given = read(reader, options, {"options"});
        if (!reader.ok()) return reader.status();
        return detail::run_user_attention(of_calls, *attention, query_given, key_given, value_given, out_given, options_given,
                                          captures_given, block_mask ? &block_mask->blocks : nullptr);
    });
}

attune_status attune_block_mask_create(attune_context *context, attune_block_mask **block_mask) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (reader.must_be_given(block_mask, {"block_mask"})) *block_mask = new attune_block_mask;
        return reader.status();
    });
}

void attune_block_mask_clear(attune_block_mask *block_mask) {
    if (block_mask) block_mask->blocks.clear();
}

void attune_block_mask_destroy(attune_block_mask *block_mask) { delete block_mask; }
