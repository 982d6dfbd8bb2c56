// SPDX-License-Identifier: MIT
#include "generators/attention/forward/builder.h"
#include <algorithm>
#include <map>

namespace attune {
using namespace Halide;
using Halide::Internal::const_false;
using Halide::Internal::const_true;
using Halide::Internal::make_const;

void Builder::prepare() {
    s.prepared = score.pair.prepared;
    if (!score.pair.key) return;
    Var d = s.d, j("j"), h = s.h, b = s.b;
    prepared_key = Func("prepared_key");
    prepared_key(d, j, h, b) = score.pair.key(cast(type, in.key(d, j, h, b)));
    s.prepared.push_back(prepared_key);
}

Expr Builder::key_element(Expr channel, Expr j, Expr key_head) const {
    if (score.pair.key) return prepared_key(channel, j, key_head, s.b);
    return cast(type, in.key(channel, j, key_head, s.b));
}

void Builder::intervals() {
    Var r = s.r, t = s.t, b = s.b;
    Expr i = rows(r, t, 0).query;
    s.row_begin = Func("row_begin");
    s.row_end = Func("row_end");
    const Span keys = seen_by(i, in.lengths(i, b), band());
    s.row_begin(r, t, b) = keys.begin;
    s.row_end(r, t, b) = keys.end;
}

Span Builder::seen_by_some_row() const {
    auto [first, last] = queries_of(s.t);
    return seen_by_some(first, last, in.longest(s.t, s.b), band());
}
Span Builder::seen_by_all_rows() const {
    auto [first, last] = queries_of(s.t);
    return seen_by_all(first, last, in.shortest(s.t, s.b), band());
}
Expr Builder::seen(Expr first_key, Expr end_key) const {
    const Span keys = seen_by_some_row();
    return first_key < keys.end && end_key > keys.begin;
}
Expr Builder::seen(Expr c) const {
    Expr some = seen(c * numerics.kv_block, (c + 1) * numerics.kv_block);
    if (!in.blocks.defined()) return some;
    const BlockSpan span = block_span(c);
    return some && span.begin < span.end;
}
Expr Builder::seen_keys(Expr c, Expr first, int width) const {
    Expr some = seen(c * numerics.kv_block + first, c * numerics.kv_block + first + width);
    if (!in.blocks.defined()) return some;
    const BlockSpan span = block_span(c);
    return some && first < span.end && first + width > span.begin;
}
BlockSpan Builder::block_span(Expr c) const { return BlockSpan::unpacked(in.blocks(c, s.t, s.h, s.b)); }

KvBlockKeys Builder::kv_block_keys(const std::string &name, bool masked, Expr c, int width) const {
    // The keys of a share lie apart: none is left out.
    if (share.keys) return {RDom(0, share.keys, 0, 1, name), share.keys};
    if (width == 0) width = masked && hints.rows_per_tile ? numerics.kv_subblock : numerics.kv_block;
    KvBlockKeys keys{RDom(0, width, 0, numerics.kv_block / width, name), width};
    if (masked && hints.rows_per_tile) keys.dom.where(seen_keys(c, keys.dom.y * width, width));
    return keys;
}

Expr Builder::unmasked(Expr c, Expr within) const {
    return score.and_unmasked(within, in.blocks.defined() ? block_span(c).whole : Expr());
}
Expr Builder::within_intervals(Expr c) const {
    auto [begin, end] = seen_by_all_rows();
    return c * numerics.kv_block >= begin && (c + 1) * numerics.kv_block <= end;
}
Expr Builder::whole(Expr c) const { return unmasked(c, within_intervals(c)); }
Expr Builder::whole_blocks(Expr c, int width) const {
    auto [begin, end] = seen_by_all_rows();
    return select(unmasked(c, c * numerics.kv_block >= begin),
                  clamp((end - c * numerics.kv_block) / width, 0, numerics.kv_block / width), 0);
}

void Builder::queries() {
    Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
    auto channel = [&](Expr r, Expr d) {
        Rows row = rows(r, t, h);
        if (numerics.channel_group || hints.query_block) d = min(likely(d), in.head_dim - 1);
        return cast(type, softmax.signed_query(in.query(d, row.query, row.query_head, b)));
    };
    if (hints.query_block) s.query_blocks.emplace("query_block", hints.query_block, std::vector<Var>{t, h, b}, channel);
    Expr q = s.query_blocks ? (*s.query_blocks)(r, d, {t, h, b}) : channel(r, d);
    s.query_t = Func("query_t");
    s.query_t(r, d, t, h, b) = score.pair.query ? score.pair.query(q) : q;
}

Expr Builder::key_in_kv_block(Expr k) const { return share.keys ? share.key(k, s.r) : k; }

// A masked KV block may reach beyond the last key; the key read there instead never counts. A KV block that lies inside cannot.
Expr Builder::key_at(Expr k, bool inside) const {
    Expr j = s.c * numerics.kv_block + key_in_kv_block(k);
    return inside ? unsafe_promise_clamped(j, 0, in.keys - 1) : min(j, in.keys - 1);
}

Index Builder::index(Expr k, bool inside) const {
    Rows row = rows(s.r, s.t, s.h);
    Index at{s.b,          row.query_head, row.query,  key_at(k, inside), row.query + in.offset(s.b),
             row.key_head, in.query_heads, in.queries, in.keys,           {}};
    at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
    return at;
}

// Halide fuses loops if their order matters in all or in none, and cannot tell for an index that is likely().
Expr Builder::joined(const Expr &key) const { return hints.joins_passes ? likely(key) : key; }

Expr Builder::existing(const Expr &channel) const { return hints.ragged_dims ? min(channel, in.value_dim - 1) : channel; }

void Builder::widen(KvBlockStages &p, const std::string &suffix, bool masked) const {
    if (!hints.widens_kv_blocks || in.key.type() == type) return;
    Var d = s.d, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    Expr j = key_at(k, !masked), head = rows(s.r, t, h).key_head;
    p.wide_key = Func("wide_key" + suffix);
    p.wide_key(d, k, c, t, h, b) = cast(type, in.key(d, j, head, b));
    if (!in.value.defined()) return;
    p.wide_value = Func("wide_value" + suffix);
    p.wide_value(d, k, c, t, h, b) = cast(type, in.value(hints.widens_by_line ? Expr(d) : existing(d), j, head, b));
}

KvBlockStages Builder::scores(const std::string &suffix, bool masked) const {
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    KvBlockStages p;
    widen(p, suffix, masked);
    p.qk = Func("qk" + suffix);
    p.score = Func("score" + suffix);
    p.qk(r, k, c, t, h, b) = value_of(0);
    auto term = [&](const Expr &channel, const Expr &of_key) {
        Expr key = p.wide_key.defined() ? p.wide_key(of_key, k, c, t, h, b)
                                        : key_element(of_key, key_at(k, !masked), rows(r, t, h).key_head);
        return softmax.qk(s.query_t(r, channel, t, h, b), key, of_key);
    };
    if (const int group = numerics.channel_group) {
        RDom channels({{0, group}, {0, (in.head_dim + group - 1) / group}}, "channel" + suffix);
        p.channel = channels.x, p.group = channels.y;
        const Expr channel = channels.y * group + channels.x, existing = min(likely(channel), in.head_dim - 1);
        p.qk(r, k, c, t, h, b) += select(likely(channel < in.head_dim), term(channel, existing), value_of(0));
    } else {
        RDom channel(0, in.head_dim, "channel" + suffix);
        p.channel = channel.x;
        p.qk(r, k, c, t, h, b) += term(channel, channel);
    }
    finish_scores(p, suffix, masked);
    return p;
}

void Builder::finish_scores(KvBlockStages &p, const std::string &suffix, bool masked, bool where_read) const {
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    auto kept = [&](Expr k) {
        Expr j = c * numerics.kv_block + key_in_kv_block(k);
        return j >= s.row_begin(r, t, b) && j < s.row_end(r, t, b);
    };
    auto scaled = [&](Expr k) { return softmax.s(p.qk(r, k, c, t, h, b), index(k, !masked)); };
    auto seen_only = [&](Expr k, Expr s) { return masked ? softmax.masked(kept(k), s) : s; };
    if (score.steps.empty() && where_read) {
        // Rounded before the maximum is subtracted, as the maximum was: otherwise the largest weight would differ from 1 by a
        // rounding, and other weights would depend on which loop over KV blocks computes them.
        const Expr rounded = strict_float(scaled(k));
        p.score(r, k, c, t, h, b) = seen_only(k, rounded);
        return;
    }
    KvBlockKeys keys = kv_block_keys("score_key" + suffix, masked, c, hints.rows_per_tile ? numerics.kv_subblock : 0);
    p.score_keys = keys.loop();
    Expr key = keys.key();
    p.score(r, k, c, t, h, b) = undef(type);
    if (score.steps.empty()) {
        const Expr score_value = seen_only(key, scaled(key));
        p.score(r, joined(key), c, t, h, b) = score_value;
        if (hints.joins_passes) take_max(p, suffix, keys, score_value);
        return;
    }
    p.score(r, key, c, t, h, b) = scaled(key);
    apply_steps(p, suffix, masked);
    if (masked) {
        KvBlockKeys kept_keys = kv_block_keys("kept_key" + suffix, true, c);
        if (hints.rows_per_tile && !share.keys) kept_keys.dom.where(!within_intervals(c));
        Expr key = kept_keys.key();
        p.score(r, key, c, t, h, b) = softmax.masked(kept(key), p.score(r, key, c, t, h, b));
        p.steps.push_back({int(p.steps.size()) + 1, kept_keys.loop(), {}, {}});
    }
}

void Builder::apply_steps(KvBlockStages &p, const std::string &suffix, bool masked) const {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    Expr inside = (c + 1) * numerics.kv_block <= in.keys;
    auto apply = [&](const ScoreStep &step, const std::vector<Expr> &conditions, bool dense, bool transposed) {
        const std::string name = "step" + std::to_string(p.steps.size()) + suffix;
        KvBlockKeys keys = kv_block_keys(name + "_key", masked, c, transposed ? hints.pair_block : 0);
        for (const Expr &condition : conditions)
            if (condition.defined()) keys.dom.where(condition);
        ScoreUpdate update{int(p.steps.size()) + 1, keys.loop(), {}, {}};
        Expr key = keys.key();
        Index at = index(key, dense);
        std::map<std::string, Expr> read;  // a table that is read twice is transposed once
        if (transposed)
            at.of_pair = [&](const Func &table) {
                Expr &element = read[table.name()];
                if (element.defined()) return element;
                update.table_names.push_back(table.name());
                update.tables.emplace_back(name + "_table", hints.pair_block, std::vector<Var>{c, t, h, b},
                                           [&](Expr row, Expr column) {
                                               Rows of = rows(row, t, h);
                                               return table(key_at(column, true), of.query, of.query_head, b);
                                           });
                return element = update.tables.back()(r, key, {c, t, h, b});
            };
        p.score(r, key, c, t, h, b) = softmax.s(step, p.score(r, key, c, t, h, b), at);
        p.steps.push_back(update);
    };
    for (const ScoreStep &step : score.steps) {
        if (!masked && step.may_mask) continue;
        if (masked && step.reads_pairs && hints.pair_block) {
            apply(step, {step.when, inside}, true, hints.pair_block > 1);
            apply(step, {step.when, !inside}, false, false);
        } else if (step.in_blocks && hints.rows_per_tile) {
            apply(step, {step.when, !block_span(s.c).whole}, !masked, false);
        } else {
            apply(step, {step.when}, !masked, false);
        }
    }
}

void Builder::row_max(KvBlockStages &p, const std::string &suffix, bool masked) const {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    if (p.row_max.defined()) return;
    const KvBlockKeys keys = kv_block_keys("max_key" + suffix, masked, c);
    take_max(p, suffix, keys, p.score(r, keys.key(), c, t, h, b));
}

void Builder::take_max(KvBlockStages &p, const std::string &suffix, const KvBlockKeys &keys, const Expr &score_value) const {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    p.max_keys = keys.loop();
    p.row_max = Func("row_max" + suffix);
    p.row_max(r, c, t, h, b) = lowest_score(type);
    p.row_max(r, c, t, h, b) = softmax.m(p.row_max(r, c, t, h, b), score_value);
}

KvBlockStages Builder::block_stages(const std::string &suffix, bool masked) const {
    Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    KvBlockStages p = scores(suffix, masked);
    row_max(p, suffix, masked);
    weigh(p, suffix, masked);

    p.pv = Func("pv" + suffix);
    p.pv(r, d, c, t, h, b) = value_of(0);
    auto add_pv = [&](bool inside, bool leave_out, const std::function<Expr(const KvBlockKeys &)> &where) {
        KvBlockKeys keys =
            kv_block_keys("pv_key" + std::to_string(p.pv_keys.size()) + suffix, masked, c, masked ? 0 : numerics.sum_keys);
        if (where) keys.dom.where(where(keys));
        Expr key = keys.key();
        Expr v = p.wide_value.defined() ? p.wide_value(hints.widens_by_line ? existing(d) : Expr(d), key, c, t, h, b)
                                        : cast(type, in.value(existing(d), key_at(key, inside), rows(r, t, h).key_head, b));
        Expr w = (p.dropped.defined() ? p.dropped : p.weight)(r, key, c, t, h, b);
        const Expr o = p.pv(r, d, c, t, h, b);
        p.pv(r, d, c, t, h, b) = leave_out ? softmax.kept_o(o, w, v) : softmax.o(o, w, v);
        p.pv_keys.push_back(keys.loop());
    };
    if (!masked) {
        add_pv(true, false, {});
        return p;
    }
    // Masked values are replaced, except where all values are known to be finite and in blocks of keys that every row sees
    // whole. The latter come first in the KV block in both cases, so leaving out the replacement changes no result.
    const bool apart = hints.whole_blocks && !share.keys;
    const Expr finite = in.finite_values.defined() ? in.finite_values(b) != 0 : const_false();
    // The whole blocks do not cut the keys of one sum: otherwise its order would depend on which keys the other rows see.
    auto whole = [&](const KvBlockKeys &keys) {
        const int of_sum = std::max(numerics.sum_keys / keys.width, 1);
        return whole_blocks(c, keys.width) / of_sum * of_sum;
    };
    auto behind_whole = [&](const KvBlockKeys &keys) { return apart ? keys.dom.y >= whole(keys) : const_true(); };
    if (apart) add_pv(true, false, [&](const KvBlockKeys &keys) { return keys.dom.y < whole(keys); });
    if (in.finite_values.defined()) add_pv(false, false, [&](const KvBlockKeys &keys) { return behind_whole(keys) && finite; });
    add_pv(false, true, [&](const KvBlockKeys &keys) { return behind_whole(keys) && !finite; });
    return p;
}

void Builder::weigh(KvBlockStages &p, const std::string &suffix, bool masked) const {
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    p.weight = Func("weight" + suffix);
    const KvBlockKeys weight_keys = kv_block_keys("weight_key" + suffix, masked, c);
    const KvBlockKeys sum_keys = hints.joins_passes ? weight_keys : kv_block_keys("sum_key" + suffix, masked, c);
    p.weight_keys = weight_keys.loop(), p.sum_keys = sum_keys.loop();

    const Expr score_value = p.score(r, k, c, t, h, b);
    const Expr weight = softmax.p(score_value, p.row_max(r, c, t, h, b));
    p.made_weight = Func("made_weight" + suffix);
    p.made_weight(r, k, c, t, h, b) = masked ? softmax.kept_p(weight, score_value) : weight;
    p.weight(r, k, c, t, h, b) = undef(type);
    p.weight(r, joined(weight_keys.key()), c, t, h, b) = p.made_weight(r, weight_keys.key(), c, t, h, b);
    const Expr counted = (hints.joins_passes ? p.made_weight : p.weight)(r, sum_keys.key(), c, t, h, b);
    sum_weights(p, suffix, sum_keys.key(), counted);
    drop_out(p, suffix, masked);
}

void Builder::sum_weights(KvBlockStages &p, const std::string &suffix, const Expr &key, const Expr &weight, bool strict) const {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    const auto add = [&](FuncRef l) {
        const Expr sum = softmax.l(l, weight);
        l = strict ? strict_float(sum) : sum;
    };
    p.row_sum = Func("row_sum" + suffix);
    p.row_sum(r, c, t, h, b) = value_of(0);
    if (!numerics.sum_weights) return add(p.row_sum(r, c, t, h, b));
    Var subblock("subblock");
    RDom blocks(0, numerics.kv_block / numerics.sum_weights, "sum_subblock" + suffix);
    p.subblock_sum = Func("subblock_sum" + suffix);
    p.subblock_sum(r, subblock, c, t, h, b) = value_of(0);
    add(p.subblock_sum(r, key / numerics.sum_weights, c, t, h, b));
    p.row_sum(r, c, t, h, b) = softmax.l(p.row_sum(r, c, t, h, b), p.subblock_sum(r, blocks, c, t, h, b));
}

void Builder::all_block_stages() {
    s.partial = block_stages(hints.rows_per_tile ? "_partial" : "", true);
    if (hints.rows_per_tile) s.full = block_stages("", false);
}

Builder query_rows(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints, const Score &score) {
    Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const int tile = hints.rows_per_tile;
    return {in,
            numerics,
            hints,
            score,
            [=](Expr r, Expr t, Expr h) {
                return Rows{tile ? min(t * tile + r, queries - 1) : r, h, h / group};
            },
            [=](Expr t) { return std::pair(t * tile, min(t * tile + tile, queries) - 1); }};
}

Builder group_rows(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints, const Score &score) {
    Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const int tile = hints.rows_per_tile;
    return {in,
            numerics,
            hints,
            score,
            [=](Expr r, Expr t, Expr h) {
                Expr n = min(t * tile + r, group * queries - 1);
                return Rows{n % queries, h * group + n / queries, h};
            },
            [=](Expr) { return std::pair(Expr(0), queries - 1); }};
}

}  // namespace attune
