#include "generators/sdpa/sdpa_stages.h"
#include "generators/math/exp2.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// Finite, because Halide's code generation assumes no Inf. A masked score lies so far below the smallest row maximum that
// its weight is exactly 0, also in a chunk where every key is masked.
constexpr double masked_score = -1e30, lowest_max = -1e29;
constexpr double log2e = 1.4426950408889634, ln2 = 0.6931471805599453;

// Which query and heads a row stands for.
struct Rows {
    Expr query, query_head, key_head;
};
using RowsOf = std::function<Rows(Expr r, Expr t, Expr h)>;

struct Builder {
    const SdpaInputs &in;
    const SdpaShape &shape;
    const Pointwise &pointwise;
    RowsOf rows;
    std::function<std::pair<Expr, Expr>(Expr t)> queries_of;  // first and last query of a tile
    SdpaStages s;
    Type type = shape.accumulator;

    Expr value_of(double x) const { return make_const(type, x); }

    void intervals() {
        Var r = s.r, t = s.t, b = s.b;
        Expr i = rows(r, t, 0).query;
        s.row_begin = Func("row_begin");
        s.row_end = Func("row_end");
        s.row_begin(r, t, b) = max(0, i + in.band_begin(b));
        s.row_end(r, t, b) = min(in.lengths(i, b), i + in.band_end(b));
    }

    // The interval of a row moves up with its query, so its ends are extreme at the first and at the last query of a tile.
    Expr begin_at(Expr i) const { return max(0, i + in.band_begin(s.b)); }
    Expr end_at(Expr i, const Func &lengths) const { return min(lengths(s.t, s.b), i + in.band_end(s.b)); }

    // Some row sees some key of the chunk.
    Expr seen(Expr c) const {
        auto [first, last] = queries_of(s.t);
        return c * shape.chunk < end_at(last, in.longest) && (c + 1) * shape.chunk > begin_at(first);
    }
    // Every row sees every key of the chunk. A mask function can hide any key, so then no chunk is known to be full.
    Expr whole(Expr c) const {
        if (pointwise.mask) return Internal::const_false();
        auto [first, last] = queries_of(s.t);
        return c * shape.chunk >= begin_at(last) && (c + 1) * shape.chunk <= end_at(first, in.shortest);
    }

    void queries() {
        Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
        Rows row = rows(r, t, h);
        s.query_t = Func("query_t");
        s.query_t(r, d, t, h, b) = cast(type, in.query(d, row.query, row.query_head, b));
    }

    SdpaPartials partials(const std::string &suffix, bool masked) const {
        Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        SdpaPartials p;
        p.score = Func("score" + suffix);
        p.logit = Func("logit" + suffix);
        p.row_max = Func("row_max" + suffix);
        p.weight = Func("weight" + suffix);
        p.row_sum = Func("row_sum" + suffix);
        p.mixed = Func("mixed" + suffix);
        RDom channel(0, in.head_dim, "channel" + suffix);
        RDom max_key(0, shape.chunk, "max_key" + suffix), sum_key(0, shape.chunk, "sum_key" + suffix),
            mixed_key(0, shape.chunk, "mixed_key" + suffix);
        p.channel = channel.x, p.max_key = max_key.x, p.sum_key = sum_key.x, p.mixed_key = mixed_key.x;

        Rows row = rows(r, t, h);
        // A masked chunk may reach beyond the last key; what is read there instead never counts. A full one cannot.
        auto key_at = [&](Expr k) {
            Expr j = c * shape.chunk + k;
            return masked ? min(j, in.keys - 1) : unsafe_promise_clamped(j, 0, in.keys - 1);
        };
        auto index = [&](Expr k) { return Index{b, row.query_head, row.query, key_at(k), row.query + in.offset(b)}; };
        auto takes_part = [&](Expr k) {
            Expr j = c * shape.chunk + k;
            Expr kept = j >= s.row_begin(r, t, b) && j < s.row_end(r, t, b);
            return pointwise.mask ? kept && pointwise.mask(index(k)) : kept;
        };

        p.score(r, k, c, t, h, b) = value_of(0);
        p.score(r, k, c, t, h, b) += s.query_t(r, channel, t, h, b) * cast(type, in.key(channel, key_at(k), row.key_head, b));
        // Scaled here and not in the query: rounding the query would cost more accuracy than the product saves time.
        Expr x = p.score(r, k, c, t, h, b);
        x = pointwise.score ? pointwise.score(x * cast(type, in.scale), index(k)) * value_of(log2e)
                            : x * cast(type, in.scale * make_const(Float(64), log2e));
        p.logit(r, k, c, t, h, b) = masked ? select(takes_part(k), x, value_of(masked_score)) : x;

        p.row_max(r, c, t, h, b) = value_of(lowest_max);
        p.row_max(r, c, t, h, b) = max(p.row_max(r, c, t, h, b), p.logit(r, max_key, c, t, h, b));
        p.weight(r, k, c, t, h, b) = exp2_nonpositive(p.logit(r, k, c, t, h, b) - p.row_max(r, c, t, h, b));
        p.row_sum(r, c, t, h, b) = value_of(0);
        p.row_sum(r, c, t, h, b) += p.weight(r, sum_key, c, t, h, b);
        Expr channel_at = shape.ragged_dims ? min(d, in.value_dim - 1) : Expr(d);
        Expr v = cast(type, in.value(channel_at, key_at(mixed_key), row.key_head, b));
        Expr pv = p.weight(r, mixed_key, c, t, h, b) * v;
        // A masked value may be NaN: its product is left out, not multiplied by 0.
        if (masked) pv = select(takes_part(mixed_key), pv, value_of(0));
        p.mixed(r, d, c, t, h, b) = value_of(0);
        p.mixed(r, d, c, t, h, b) += pv;
        return p;
    }

    void all_partials() {
        s.part = partials(shape.rows_per_tile ? "_part" : "", true);
        if (shape.rows_per_tile) s.full = partials("", false);
    }

    RDom chunks(const std::string &name) const { return RDom(0, (in.keys + shape.chunk - 1) / shape.chunk, name); }

    // The chunks that update 0 and update 1 of what leaves a chunk run over.
    std::pair<RDom, RDom> chunk_domains() {
        RDom full = chunks("full_chunk"), part = chunks("part_chunk");
        full.where(seen(full));
        full.where(whole(full));
        part.where(seen(part));
        part.where(!whole(part));
        s.full_chunk = full.x, s.part_chunk = part.x;
        return {full, part};
    }

    // Merge of what `max_of`, `sum_of` and `mixed_of` give for a chunk.
    using OfChunk = std::function<Expr(Expr c)>;
    void merge(const OfChunk &max_of, const OfChunk &sum_of, const OfChunk &mixed_of) {
        Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        s.total_max = Func("total_max");
        s.chunk_scale = Func("chunk_scale");
        s.total_sum = Func("total_sum");
        s.total_mixed = Func("total_mixed");
        s.normalised = Func("normalised");
        s.lse = Func("lse");
        RDom max_chunk = chunks("max_chunk"), sum_chunk = chunks("sum_chunk"), mixed_chunk = chunks("mixed_chunk");
        if (shape.rows_per_tile)
            for (RDom *dom : {&max_chunk, &sum_chunk, &mixed_chunk}) dom->where(seen(*dom));
        s.max_chunk = max_chunk.x, s.sum_chunk = sum_chunk.x, s.mixed_chunk = mixed_chunk.x;

        s.total_max(r, t, h, b) = value_of(lowest_max);
        s.total_max(r, t, h, b) = max(s.total_max(r, t, h, b), max_of(max_chunk));
        s.chunk_scale(r, c, t, h, b) = exp2_nonpositive(max_of(c) - s.total_max(r, t, h, b));
        s.total_sum(r, t, h, b) = value_of(0);
        // Strict, or code generation may conclude that the sum is no NaN and drop the question below.
        s.total_sum(r, t, h, b) =
            strict_float(s.total_sum(r, t, h, b) + s.chunk_scale(r, sum_chunk, t, h, b) * sum_of(sum_chunk));
        s.total_mixed(r, d, t, h, b) = value_of(0);
        s.total_mixed(r, d, t, h, b) += s.chunk_scale(r, mixed_chunk, t, h, b) * mixed_of(mixed_chunk);

        // A row that sees no key has sum 0. Strict, so that a NaN sum is not taken for one; and -inf as a bit pattern,
        // because arithmetic on it would be undefined.
        Expr sum = s.total_sum(r, t, h, b);
        Expr empty = strict_float(sum == value_of(0));
        s.normalised(r, d, t, h, b) = select(empty, value_of(0), s.total_mixed(r, d, t, h, b) / sum);
        const Type bits = UInt(type.bits());
        Expr minus_infinity = make_const(bits, type.bits() == 32 ? 0xff800000u : 0xfff0000000000000u);
        Expr lse = reinterpret(bits, value_of(ln2) * s.total_max(r, t, h, b) + log(sum));
        lse = select(is_nan(sum), reinterpret(bits, sum), lse);  // log() of a NaN may be a number
        s.lse(r, t, h, b) = reinterpret(type, select(empty, minus_infinity, lse));
    }
};

}  // namespace

SdpaStages sdpa_stages(const SdpaInputs &in, const SdpaShape &shape, const Pointwise &pointwise) {
    Expr group = in.query_heads / in.key_heads;
    const int tile = shape.rows_per_tile;
    Builder build{in,
                  shape,
                  pointwise,
                  [&](Expr r, Expr t, Expr h) {
                      return Rows{tile ? min(t * tile + r, in.queries - 1) : r, h, h / group};
                  },
                  [&](Expr t) { return std::pair(t * tile, min(t * tile + tile, in.queries) - 1); },
                  {}};
    SdpaStages &s = build.s;
    Var r = s.r, c = s.c, d = s.d, i = s.i, t = s.t, h = s.h, b = s.b;
    build.intervals();
    build.queries();
    build.all_partials();

    s.chunk_max = Func("chunk_max");
    s.chunk_sum = Func("chunk_sum");
    s.chunk_mixed = Func("chunk_mixed");
    if (shape.rows_per_tile) {
        auto [full, part] = build.chunk_domains();
        s.chunk_max(r, c, t, h, b) = undef(shape.accumulator);
        s.chunk_sum(r, c, t, h, b) = undef(shape.accumulator);
        s.chunk_mixed(r, d, c, t, h, b) = undef(shape.accumulator);
        for (const auto &[dom, p] : {std::pair(full, s.full), std::pair(part, s.part)}) {
            s.chunk_max(r, dom, t, h, b) = p.row_max(r, dom, t, h, b);
            s.chunk_sum(r, dom, t, h, b) = p.row_sum(r, dom, t, h, b);
            s.chunk_mixed(r, d, dom, t, h, b) = p.mixed(r, d, dom, t, h, b);
        }
    } else {
        s.chunk_max(r, c, t, h, b) = s.part.row_max(r, c, t, h, b);
        s.chunk_sum(r, c, t, h, b) = s.part.row_sum(r, c, t, h, b);
        s.chunk_mixed(r, d, c, t, h, b) = s.part.mixed(r, d, c, t, h, b);
    }
    build.merge([&](Expr at) { return s.chunk_max(r, at, t, h, b); }, [&](Expr at) { return s.chunk_sum(r, at, t, h, b); },
                [&](Expr at) { return s.chunk_mixed(r, d, at, t, h, b); });
    s.out = Func("out_stage");
    Expr row = tile ? i % tile : Expr(i), tile_of_row = tile ? i / tile : Expr(0);
    s.out(d, i, h, b) = Tuple(s.normalised(row, d, tile_of_row, h, b), s.lse(row, tile_of_row, h, b));
    return s;
}

SdpaStages sdpa_split_stages(const SdpaInputs &in, const SdpaShape &shape, const Pointwise &pointwise) {
    Expr group = in.query_heads / in.key_heads;
    const int tile = shape.rows_per_tile;
    Builder build{in,
                  shape,
                  pointwise,
                  [&](Expr r, Expr t, Expr h) {
                      Expr n = min(t * tile + r, group * in.queries - 1);
                      return Rows{n % in.queries, h * group + n / in.queries, h};
                  },
                  [&](Expr) { return std::pair(Expr(0), in.queries - 1); },
                  {}};
    SdpaStages &s = build.s;
    Var r = s.r, c = s.c, d = s.d, i = s.i, t = s.t, h = s.h, b = s.b;
    build.intervals();
    build.queries();
    build.all_partials();

    auto [full, part] = build.chunk_domains();
    s.chunk_packed = Func("chunk_packed");
    s.chunk_packed(d, r, c, t, h, b) = undef(shape.accumulator);
    for (const auto &[dom, p] : {std::pair(full, s.full), std::pair(part, s.part)}) {
        s.chunk_packed(d, r, dom, t, h, b) = select(d < in.value_dim, p.mixed(r, min(d, in.value_dim - 1), dom, t, h, b),
                                                    d == in.value_dim, p.row_sum(r, dom, t, h, b), p.row_max(r, dom, t, h, b));
    }
    build.merge([&](Expr at) { return s.chunk_packed(in.value_dim + 1, r, at, t, h, b); },
                [&](Expr at) { return s.chunk_packed(in.value_dim, r, at, t, h, b); },
                [&](Expr at) { return s.chunk_packed(d, r, at, t, h, b); });
    Expr n = (h % group) * in.queries + i;
    s.out = Func("out_stage");
    s.out(d, i, h, b) = Tuple(s.normalised(n % tile, d, n / tile, h / group, b), s.lse(n % tile, n / tile, h / group, b));
    return s;
}

}  // namespace attune
