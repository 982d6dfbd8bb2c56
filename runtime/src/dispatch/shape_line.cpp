// SPDX-License-Identifier: MIT
// A call of attention as the columns of a file of shapes (bench/cases/shapes.h).
#include "attention/sdpa_call.h"
#include "dispatch/shape_record.h"
#include <algorithm>

namespace attune {
namespace {

// Tables of the benchmark are the same for all entries and heads.
bool is_shared(const ConstView &table) {
    for (int n = 0; n < 2; n++)
        if (table.given() && table.extent[n] > 1 && table.stride[n] != 0) return false;
    return true;
}

std::string options_of(const SdpaCall &c) {
    std::string text;
    const std::pair<bool, const char *> all[] = {{c.mask.given(), "mask"},      {c.bias.given(), "bias"},
                                                 {c.slopes.given(), "alibi"},   {c.softcap != 0, "softcap"},
                                                 {c.sinks.given(), "sinks"},    {c.dropout.probability > 0, "dropout"},
                                                 {c.weights.given(), "weights"}};
    for (const auto &[given, name] : all)
        if (given) text.append(text.empty() ? "" : "+").append(name);
    return text;
}

// Which keys take part: query i of batch entry b has [i + begin, i + end) within [0, length). The columns count `left` and
// `right` from i, or with `causal` from the query's place at the end of the keys.
void set_keys(const SdpaCall &c, ShapeLine &line) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(line.b), line.k);
    if (c.lengths.given()) lengths = entry_lengths(c.lengths, line.exact);
    const auto same = [](const std::vector<std::int32_t> &v) {
        return std::all_of(v.begin(), v.end(), [&](std::int32_t x) { return x == v[0]; });
    };
    const auto end_of = [&](std::size_t b) -> std::int64_t { return c.band_end[c.band_end.size() == 1 ? 0 : b]; };
    const std::int64_t begin = c.band_begin[0], end = c.band_end[0];
    const bool one_band = same(c.band_begin) && same(c.band_end);
    const bool open_left = same(c.band_begin) && begin <= 1 - line.q, open_right = one_band && end >= line.k;
    if (open_left && (open_right || line.q == 1)) {
        for (std::size_t b = 0; b < lengths.size(); b++) lengths[b] = std::clamp<std::int64_t>(end_of(b), 0, lengths[b]);
    } else if (one_band && end == line.k - line.q + 1 && (open_left || end - 1 >= begin)) {
        line.causal = true;
        if (!open_left) line.left = end - 1 - begin;
    } else if (one_band && (open_left || begin <= 0) && (open_right || end >= 1)) {
        if (!open_left) line.left = -begin;
        if (!open_right) line.right = end - 1;
    } else {  // as if the keys ended where the last query's do
        for (std::size_t b = 0; b < lengths.size(); b++)
            lengths[b] = std::clamp<std::int64_t>(line.q - 1 + end_of(b), 0, lengths[b]);
        line.k = *std::max_element(lengths.begin(), lengths.end());
        line.causal = true;
        if (!open_left) line.left = std::max<std::int64_t>(0, end - 1 - begin);
        line.exact = false;
    }
    line.length = column_of(lengths, line.k);
}

}  // namespace

ShapeLine shape_line(std::string_view op, const SdpaCall &c) {
    const SdpaProblem &p = c.sizes;
    ShapeLine line{.op = op,
                   .dtype = p.dtype,
                   .b = p.batch,
                   .h = p.query_heads,
                   .kv = p.key_heads,
                   .q = p.queries,
                   .k = p.keys,
                   .d = p.head_dim,
                   .dv = p.value_dim};
    if (std::min({line.b, line.h, line.kv, line.q, line.k}) < 1) return line;
    line.exact = is_shared(c.bias) && is_shared(c.mask);
    line.options = options_of(c);
    set_keys(c, line);
    return line;
}

}  // namespace attune
