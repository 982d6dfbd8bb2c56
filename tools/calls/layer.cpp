// SPDX-License-Identifier: MIT
#include "tools/calls/layer.h"
#include "tools/error.h"
#include <limits>

namespace attune::program {
namespace {

std::int64_t parse_heads(const char *argument, const std::string &text) {
    const std::int64_t heads = whole_number_of(argument, text);
    if (heads < 1 || heads > std::numeric_limits<std::int32_t>::max())
        throw InputError(argument, "must be from 1 to 2^31 - 1, got " + text);
    return heads;
}

}  // namespace

Layer::Layer(const MultiHeadArguments &given, CommandFiles &files) {
    options.heads = parse_heads("--heads", given.heads);
    if (given.kv_heads) options.key_heads = parse_heads("--kv-heads", *given.kv_heads);
    files.input("--w-query", given.w_query, w_query, {2, 2, "(heads * D, Eq)"});
    files.input("--w-key", given.w_key, w_key, {2, 2, "(kv heads * D, Ek)"});
    files.input("--w-value", given.w_value, w_value, {2, 2, "(kv heads * Dv, Ev)"});
    files.input("--w-out", given.w_out, w_out, {2, 2, "(Eo, heads * Dv)"});
    files.input("--b-query", given.b_query, b_query, {1, 1, "(heads * D,)"});
    files.input("--b-key", given.b_key, b_key, {1, 1, "(kv heads * D,)"});
    files.input("--b-value", given.b_value, b_value, {1, 1, "(kv heads * Dv,)"});
    files.input("--b-out", given.b_out, b_out, {1, 1, "(Eo,)"});
}

void Layer::check_heads() const {
    if (w_query.shape[0] % options.heads == 0) return;
    throw InputError("--heads", std::to_string(w_query.shape[0]) + " rows of --w-query are not divisible by " +
                                    std::to_string(options.heads) + " heads");
}

MultiHeadWeights Layer::weights() const {
    return {view_of(w_query), view_of(w_key), view_of(w_value), view_of(w_out),
            view_of(b_query), view_of(b_key), view_of(b_value), view_of(b_out)};
}

}  // namespace attune::program
