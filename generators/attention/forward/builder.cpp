#include "generators/attention/forward/builder.h"
#include "generators/math/bits.h"
#include "generators/math/exp2.h"
#include "generators/math/precise.h"
#include <algorithm>
#include <limits>
#include <map>
#include <numbers>

namespace attune {
using namespace Halide;
using Halide::Internal::const_false;
using Halide::Internal::const_true;
using Halide::Internal::make_const;

Expr lowest_score(const Type &type) { return make_const(type, type.bits() == 32 ? -3e38 : -1e308); }
Expr masked_score(const Type &type) {
    return make_const(type,
                      type.bits() == 32 ? double(std::numeric_limits<float>::lowest()) : std::numeric_limits<double>::lowest());
}

Expr minus_infinity_bits(Type type) {
    return type.bits() == 32 ? make_const(UInt(32), 0xff800000u) : make_const(UInt(64), 0xfff0000000000000u);
}

Expr kept_or_marked(const Expr &kept, const Expr &x) {
    return reinterpret(x.type(), select(kept, bits_of(x), sign_bit(x.type())));
}
Expr signed_kept_or_marked(const Expr &kept, const Expr &x) {
    return kept_or_marked(kept, reinterpret(x.type(), select(counts(x), bits_of(x), Internal::make_zero(bits_of(x).type()))));
}
Expr counts(const Expr &x) { return bits_of(x) != sign_bit(x.type()); }
Expr marked_zero(const Expr &x) { return reinterpret(x.type(), bits_of(x) & sign_bit(x.type())); }

Expr computed_term(const PairTerm &pair, const Expr &query, const Expr &key) {
    if (pair.computed) return pair.computed(query, key);
    return pair.term ? precise(pair.term(query, key)) : query * key;
}
Expr contribution_of(const PairTerm &pair, const Expr &term) {
    return pair.contribution ? precise(pair.contribution(term)) : term;
}
Expr weighted_term(const PairTerm &pair, const Expr &query, const Expr &key, const Expr &channel) {
    const Expr term = contribution_of(pair, computed_term(pair, query, key));
    return pair.weight ? pair.weight(channel) * term : term;
}

Expr Builder::per_score() const {
    const Expr log2e = make_const(Float(64), std::numbers::log2e), most = cast(Float(64), type.max());
    return cast(type, score.scales_scores() ? log2e : min(abs(in.scale) * log2e, most));
}
Expr Builder::signed_query(const Expr &x) const {
    if (score.scales_scores()) return x;
    const Type bits = UInt(x.type().bits());
    return reinterpret(x.type(), bits_of(x) ^ select(in.scale < 0, sign_bit(x.type()), make_const(bits, 0)));
}
Expr Builder::natural(const Expr &x) const {
    return score.scales_scores() ? x : x * cast(type, abs(in.scale));
}
// "Less": code generation makes "less or equal" of "not greater", which a NaN is.
Expr Builder::is_masked(Expr logit) const { return strict_float(logit < lowest_score(type)); }

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
    s.row_begin(r, t, b) = max(0, i + in.band_begin(b));
    s.row_end(r, t, b) = min(in.lengths(i, b), i + in.band_end(b));
}

// The interval of a row moves up with its query, so its ends are extreme at the first and at the last query of a tile.
Expr Builder::seen(Expr first_key, Expr end_key) const {
    auto [first, last] = queries_of(s.t);
    Expr begin = max(0, first + in.band_begin(s.b));
    Expr end = min(in.longest(s.t, s.b), last + in.band_end(s.b));
    return first_key < end && end_key > begin;
}
Expr Builder::seen(Expr c) const {
    Expr some = seen(c * shape.chunk, (c + 1) * shape.chunk);
    if (!in.blocks.defined()) return some;
    const BlockSpan span = block_span(c);
    return some && span.begin < span.end;
}
Expr Builder::seen_keys(Expr c, Expr first, int width) const {
    Expr some = seen(c * shape.chunk + first, c * shape.chunk + first + width);
    if (!in.blocks.defined()) return some;
    const BlockSpan span = block_span(c);
    return some && first < span.end && first + width > span.begin;
}
BlockSpan Builder::block_span(Expr c) const { return BlockSpan::unpacked(in.blocks(c, s.t, s.h, s.b)); }

ChunkKeys Builder::chunk_keys(const std::string &name, bool masked, Expr c, int width) const {
    // Its keys lie apart: none of them is left out.
    if (share.keys) return {RDom(0, share.keys, 0, 1, name), share.keys};
    if (width == 0) width = masked && shape.rows_per_tile ? shape.key_block : shape.chunk;
    ChunkKeys keys{RDom(0, width, 0, shape.chunk / width, name), width};
    if (masked && shape.rows_per_tile) keys.dom.where(seen_keys(c, keys.dom.y * width, width));
    return keys;
}

std::pair<Expr, Expr> Builder::seen_by_all() const {
    auto [first, last] = queries_of(s.t);
    return {max(0, last + in.band_begin(s.b)), min(in.shortest(s.t, s.b), first + in.band_end(s.b))};
}
Expr Builder::unmasked(Expr c, Expr within) const {
    return score.and_unmasked(within, in.blocks.defined() ? block_span(c).whole : Expr());
}
Expr Builder::within_intervals(Expr c) const {
    auto [begin, end] = seen_by_all();
    return c * shape.chunk >= begin && (c + 1) * shape.chunk <= end;
}
Expr Builder::whole(Expr c) const { return unmasked(c, within_intervals(c)); }
Expr Builder::whole_blocks(Expr c, int width) const {
    auto [begin, end] = seen_by_all();
    return select(unmasked(c, c * shape.chunk >= begin), clamp((end - c * shape.chunk) / width, 0, shape.chunk / width), 0);
}

void Builder::queries() {
    Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
    auto channel = [&](Expr r, Expr d) {
        Rows row = rows(r, t, h);
        if (shape.channel_group || shape.query_block) d = min(likely(d), in.head_dim - 1);
        return cast(type, signed_query(in.query(d, row.query, row.query_head, b)));
    };
    if (shape.query_block) s.query_blocks.emplace("query_block", shape.query_block, std::vector<Var>{t, h, b}, channel);
    Expr q = s.query_blocks ? (*s.query_blocks)(r, d, {t, h, b}) : channel(r, d);
    s.query_t = Func("query_t");
    s.query_t(r, d, t, h, b) = score.pair.query ? score.pair.query(q) : q;
}

Expr Builder::key_in_chunk(Expr k) const { return share.keys ? share.key(k, s.r) : k; }

// A masked chunk may reach beyond the last key; what is read there instead never counts. One that lies inside cannot.
Expr Builder::key_at(Expr k, bool inside) const {
    Expr j = s.c * shape.chunk + key_in_chunk(k);
    return inside ? unsafe_promise_clamped(j, 0, in.keys - 1) : min(j, in.keys - 1);
}

Expr Builder::marked(Expr weight, Expr logit) const { return kept_or_marked(!is_masked(logit), weight); }

Index Builder::index(Expr k, bool inside) const {
    Rows row = rows(s.r, s.t, s.h);
    Index at{s.b,          row.query_head, row.query,  key_at(k, inside), row.query + in.offset(s.b),
             row.key_head, in.query_heads, in.queries, in.keys,           {}};
    at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
    return at;
}

// Halide joins loops if their order counts in all of them or in none. It cannot tell of an index that is likely().
Expr Builder::joined(const Expr &key) const { return shape.joins_passes ? likely(key) : key; }

Expr Builder::existing(const Expr &channel) const { return shape.ragged_dims ? min(channel, in.value_dim - 1) : channel; }

void Builder::widen(SdpaPartials &p, const std::string &suffix, bool masked) const {
    if (!shape.widens_chunks || in.key.type() == type) return;
    Var d = s.d, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    Expr j = key_at(k, !masked), head = rows(s.r, t, h).key_head;
    p.wide_key = Func("wide_key" + suffix);
    p.wide_key(d, k, c, t, h, b) = cast(type, in.key(d, j, head, b));
    if (!in.value.defined()) return;
    p.wide_value = Func("wide_value" + suffix);
    p.wide_value(d, k, c, t, h, b) = cast(type, in.value(shape.widens_by_line ? Expr(d) : existing(d), j, head, b));
}

SdpaPartials Builder::scores(const std::string &suffix, bool masked) const {
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    SdpaPartials p;
    widen(p, suffix, masked);
    p.score = Func("score" + suffix);
    p.logit = Func("logit" + suffix);
    p.score(r, k, c, t, h, b) = value_of(0);
    auto term = [&](const Expr &channel, const Expr &of_key) {
        Expr key = p.wide_key.defined() ? p.wide_key(of_key, k, c, t, h, b)
                                        : key_element(of_key, key_at(k, !masked), rows(r, t, h).key_head);
        return weighted_term(score.pair, s.query_t(r, channel, t, h, b), key, of_key);
    };
    if (const int group = shape.channel_group) {
        RDom channels({{0, group}, {0, (in.head_dim + group - 1) / group}}, "channel" + suffix);
        p.channel = channels.x, p.group = channels.y;
        const Expr channel = channels.y * group + channels.x, existing = min(likely(channel), in.head_dim - 1);
        p.score(r, k, c, t, h, b) += select(likely(channel < in.head_dim), term(channel, existing), value_of(0));
    } else {
        RDom channel(0, in.head_dim, "channel" + suffix);
        p.channel = channel.x;
        p.score(r, k, c, t, h, b) += term(channel, channel);
    }
    finish_scores(p, suffix, masked);
    return p;
}

void Builder::finish_scores(SdpaPartials &p, const std::string &suffix, bool masked, bool where_read) const {
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    auto kept = [&](Expr k) {
        Expr j = c * shape.chunk + key_in_chunk(k);
        return j >= s.row_begin(r, t, b) && j < s.row_end(r, t, b);
    };
    // Scaled here, if before the softmax at all, and not in the query: rounding the query would cost more accuracy than the
    // product saves time.
    auto scaled = [&](Expr k) {
        Expr x = p.score(r, k, c, t, h, b);
        if (score.pair.finish) x = score.pair.finish(x, index(k, !masked));
        return score.scales_scores() ? x * cast(type, in.scale) : x;
    };
    auto scaled_and_masked = [&](Expr k) { return masked ? select(kept(k), scaled(k), masked_score(type)) : scaled(k); };
    if (score.steps.empty() && where_read) {
        // Rounded before the maximum is taken from it, as the maximum was: or the largest weight would be 1 but for a rounding, and
        // others would depend on which loop over chunks computes them.
        const Expr rounded = strict_float(scaled(k));
        p.logit(r, k, c, t, h, b) = masked ? select(kept(k), rounded, masked_score(type)) : rounded;
        return;
    }
    ChunkKeys keys = chunk_keys("logit_key" + suffix, masked, c, shape.rows_per_tile ? shape.key_block : 0);
    p.logit_keys = keys.loop();
    Expr key = keys.key();
    p.logit(r, k, c, t, h, b) = undef(type);
    if (score.steps.empty()) {
        const Expr logit = scaled_and_masked(key);
        p.logit(r, joined(key), c, t, h, b) = logit;
        if (shape.joins_passes) take_max(p, suffix, keys, logit);
        return;
    }
    p.logit(r, key, c, t, h, b) = scaled(key);
    apply_steps(p, suffix, masked);
    if (masked) {
        ChunkKeys kept_keys = chunk_keys("kept_key" + suffix, true, c);
        if (shape.rows_per_tile && !share.keys) kept_keys.dom.where(!within_intervals(c));
        Expr key = kept_keys.key();
        p.logit(r, key, c, t, h, b) = select(kept(key), p.logit(r, key, c, t, h, b), masked_score(type));
        p.steps.push_back({int(p.steps.size()) + 1, kept_keys.loop(), {}, {}});
    }
}

void Builder::apply_steps(SdpaPartials &p, const std::string &suffix, bool masked) const {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    Expr inside = (c + 1) * shape.chunk <= in.keys;
    auto apply = [&](const ScoreStep &step, const std::vector<Expr> &conditions, bool dense, bool transposed) {
        const std::string name = "step" + std::to_string(p.steps.size()) + suffix;
        ChunkKeys keys = chunk_keys(name + "_key", masked, c, transposed ? shape.pair_block : 0);
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
                update.tables.emplace_back(name + "_table", shape.pair_block, std::vector<Var>{c, t, h, b},
                                           [&](Expr row, Expr column) {
                                               Rows of = rows(row, t, h);
                                               return table(key_at(column, true), of.query, of.query_head, b);
                                           });
                return element = update.tables.back()(r, key, {c, t, h, b});
            };
        Expr x = p.logit(r, key, c, t, h, b);
        if (step.score) x = precise(step.score(x, at));
        p.logit(r, key, c, t, h, b) = step.mask ? select(step.mask(at), x, masked_score(type)) : x;
        p.steps.push_back(update);
    };
    for (const ScoreStep &step : score.steps) {
        if (!masked && step.may_mask) continue;
        if (masked && step.reads_pairs && shape.pair_block) {
            apply(step, {step.when, inside}, true, shape.pair_block > 1);
            apply(step, {step.when, !inside}, false, false);
        } else if (step.in_blocks && shape.rows_per_tile) {
            apply(step, {step.when, !block_span(s.c).whole}, !masked, false);
        } else {
            apply(step, {step.when}, !masked, false);
        }
    }
}

void Builder::row_max(SdpaPartials &p, const std::string &suffix, bool masked) const {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    if (p.row_max.defined()) return;
    const ChunkKeys keys = chunk_keys("max_key" + suffix, masked, c);
    take_max(p, suffix, keys, p.logit(r, keys.key(), c, t, h, b));
}

void Builder::take_max(SdpaPartials &p, const std::string &suffix, const ChunkKeys &keys, const Expr &logit) const {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    p.max_keys = keys.loop();
    p.row_max = Func("row_max" + suffix);
    p.row_max(r, c, t, h, b) = lowest_score(type);
    p.row_max(r, c, t, h, b) = max(p.row_max(r, c, t, h, b), logit);
}

SdpaPartials Builder::partials(const std::string &suffix, bool masked) const {
    Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    SdpaPartials p = scores(suffix, masked);
    row_max(p, suffix, masked);
    weigh(p, suffix, masked);

    p.mixed = Func("mixed" + suffix);
    p.mixed(r, d, c, t, h, b) = value_of(0);
    auto mix = [&](bool inside, bool leave_out, const std::function<Expr(const ChunkKeys &)> &where) {
        ChunkKeys keys =
            chunk_keys("mixed_key" + std::to_string(p.mixed_keys.size()) + suffix, masked, c, masked ? 0 : shape.sum_keys);
        if (where) keys.dom.where(where(keys));
        Expr key = keys.key();
        Expr v = p.wide_value.defined() ? p.wide_value(shape.widens_by_line ? existing(d) : Expr(d), key, c, t, h, b)
                                        : cast(type, in.value(existing(d), key_at(key, inside), rows(r, t, h).key_head, b));
        Expr w = (p.dropped.defined() ? p.dropped : p.weight)(r, key, c, t, h, b);
        p.mixed(r, d, c, t, h, b) += leave_out ? w * select(counts(w), v, value_of(0)) : w * v;
        p.mixed_keys.push_back(keys.loop());
    };
    if (!masked) {
        mix(true, false, {});
        return p;
    }
    // A masked value may be NaN: it is replaced, not multiplied by 0. But not where all values are known to be finite, nor in blocks
    // of keys of which every row sees all. These are the first of the chunk in both cases, so it changes no result.
    const bool apart = shape.whole_blocks && !share.keys;
    const Expr finite = in.finite_values.defined() ? in.finite_values(b) != 0 : const_false();
    // Nor do they cut the keys of one sum: else its order would depend on which keys the other rows see.
    auto whole = [&](const ChunkKeys &keys) {
        const int of_sum = std::max(shape.sum_keys / keys.width, 1);
        return whole_blocks(c, keys.width) / of_sum * of_sum;
    };
    auto behind_whole = [&](const ChunkKeys &keys) { return apart ? keys.dom.y >= whole(keys) : const_true(); };
    if (apart) mix(true, false, [&](const ChunkKeys &keys) { return keys.dom.y < whole(keys); });
    if (in.finite_values.defined()) mix(false, false, [&](const ChunkKeys &keys) { return behind_whole(keys) && finite; });
    mix(false, true, [&](const ChunkKeys &keys) { return behind_whole(keys) && !finite; });
    return p;
}

void Builder::weigh(SdpaPartials &p, const std::string &suffix, bool masked) const {
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    p.weight = Func("weight" + suffix);
    p.row_sum = Func("row_sum" + suffix);
    const ChunkKeys weight_keys = chunk_keys("weight_key" + suffix, masked, c);
    const ChunkKeys sum_keys = shape.joins_passes ? weight_keys : chunk_keys("sum_key" + suffix, masked, c);
    p.weight_keys = weight_keys.loop(), p.sum_keys = sum_keys.loop();

    const Expr logit = p.logit(r, k, c, t, h, b);
    const Expr weight = power_of(strict_float(logit - p.row_max(r, c, t, h, b)));
    p.made_weight = Func("made_weight" + suffix);
    p.made_weight(r, k, c, t, h, b) = masked ? marked(weight, logit) : weight;
    p.weight(r, k, c, t, h, b) = undef(type);
    p.weight(r, joined(weight_keys.key()), c, t, h, b) = p.made_weight(r, weight_keys.key(), c, t, h, b);
    const Expr counted = (shape.joins_passes ? p.made_weight : p.weight)(r, sum_keys.key(), c, t, h, b);
    p.row_sum(r, c, t, h, b) = value_of(0);
    if (shape.joins_passes && shape.sum_keys) {
        Var block("block");
        RDom blocks(0, shape.chunk / shape.sum_keys, "sum_block" + suffix);
        p.block_sum = Func("block_sum" + suffix);
        p.block_sum(r, block, c, t, h, b) = value_of(0);
        p.block_sum(r, sum_keys.key() / shape.sum_keys, c, t, h, b) += counted;
        p.row_sum(r, c, t, h, b) += p.block_sum(r, blocks, c, t, h, b);
    } else {
        p.row_sum(r, c, t, h, b) += counted;
    }
    drop_out(p, suffix, masked);
}

void Builder::all_partials() {
    s.part = partials(shape.rows_per_tile ? "_part" : "", true);
    if (shape.rows_per_tile) s.full = partials("", false);
}

Builder query_rows(const SdpaInputs &in, const SdpaShape &shape, const Score &score) {
    Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const int tile = shape.rows_per_tile;
    return {in, shape, score,
            [=](Expr r, Expr t, Expr h) {
                return Rows{tile ? min(t * tile + r, queries - 1) : r, h, h / group};
            },
            [=](Expr t) { return std::pair(t * tile, min(t * tile + tile, queries) - 1); }};
}

Builder group_rows(const SdpaInputs &in, const SdpaShape &shape, const Score &score) {
    Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const int tile = shape.rows_per_tile;
    return {in, shape, score,
            [=](Expr r, Expr t, Expr h) {
                Expr n = min(t * tile + r, group * queries - 1);
                return Rows{n % queries, h * group + n / queries, h};
            },
            [=](Expr) { return std::pair(Expr(0), queries - 1); }};
}

}  // namespace attune
