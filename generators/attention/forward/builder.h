// SPDX-License-Identifier: MIT
// Builder of an attention's stages, shared by its forms (blocked_stages.cpp, weights_stages.cpp).
#pragma once
#include "generators/attention/equations/blocked_softmax.h"
#include "generators/attention/equations/intervals.h"
#include "generators/attention/forward/blocked_stages.h"
#include "generators/math/narrowed.h"

namespace attune {

// Query and heads of a row.
struct Rows {
    Halide::Expr query, query_head, key_head;
};

// A reduction over the keys of a KV block.
struct KvBlockKeys {
    Halide::RDom dom;
    int width;
    Halide::Expr key() const { return dom.y * width + dom.x; }
    KeyLoop loop() const { return {dom.x, dom.y}; }
};

// Share of a row in the keys of a KV block that are interleaved over several rows of a tile with the same query: the number of
// keys per row, and the key of the KV block that is the k-th one of row r.
struct KeyShare {
    int keys = 0;  // 0: all keys, in order
    std::function<Halide::Expr(Halide::Expr k, Halide::Expr r)> key;
};

struct Builder {
    using Expr = Halide::Expr;
    using Func = Halide::Func;
    using RDom = Halide::RDom;

    const SdpaInputs &in;
    const SdpaNumerics &numerics;
    const ScheduleHints &hints;
    const Score &score;
    std::function<Rows(Expr r, Expr t, Expr h)> rows;
    std::function<std::pair<Expr, Expr>(Expr t)> queries_of;  // first and last query of a tile
    SdpaStages s = {};
    Halide::Type type = numerics.accumulator;
    BlockedSoftmax softmax{{score, type, in.scale}, numerics.powers};
    Func prepared_key = {};
    KeyShare share = {};

    Expr value_of(double x) const { return softmax.value_of(x); }

    // Whether some row sees some key of KV block c; or some key among `width` keys of the block.
    Expr seen(Expr c) const;
    Expr seen_keys(Expr c, Expr first_in_kv_block, int width) const;
    // The band of a batch entry; the keys that some row and that all rows of a tile see by their intervals; whether KV block c
    // lies within the latter; and whether, besides, no step masks any of its keys.
    Band band() const { return {in.band_begin(s.b), in.band_end(s.b)}; }
    Span seen_by_some_row() const;
    Span seen_by_all_rows() const;
    Expr within_intervals(Expr c) const;
    Expr whole(Expr c) const;
    // The number of blocks of `width` keys, from the begin of KV block c on, that every row sees whole.
    Expr whole_blocks(Expr c, int width) const;
    // `within`, and no step masks any key of KV block c.
    Expr unmasked(Expr c, Expr within) const;

    void prepare();
    void intervals();
    void queries();
    // qk and score of all keys of a KV block; with `masked`, the masked keys too.
    KvBlockStages scores(const std::string &suffix, bool masked) const;
    // scores() and all stages within the KV block that follow from them.
    KvBlockStages block_stages(const std::string &suffix, bool masked) const;
    void all_block_stages();
    // Parts of block_stages(): the stages that follow from `qk`, from `score`, and from `score` and `row_max`. where_read:
    // scores that no step changes are scaled and masked wherever they are read; `score` is then no update and needs no stage.
    void finish_scores(KvBlockStages &, const std::string &suffix, bool masked, bool where_read = false) const;
    // Maximum of the scores that finish_scores() left, unless it took the maxima itself; and of a score of these keys.
    void row_max(KvBlockStages &, const std::string &suffix, bool masked) const;
    void take_max(KvBlockStages &, const std::string &suffix, const KvBlockKeys &, const Expr &score_value) const;
    // The key of an update that is to be fused with another one, with joins_passes.
    Expr joined(const Expr &key) const;
    void weigh(KvBlockStages &, const std::string &suffix, bool masked) const;
    // The row sum of the weights of these keys, which is `strict` where one loop makes them with other Funcs.
    void sum_weights(KvBlockStages &, const std::string &suffix, const Expr &key, const Expr &weight,
                     bool strict = false) const;
    // The keys of KV block c in blocks of `width`; 0: the width at which unseen blocks can be left out.
    KvBlockKeys kv_block_keys(const std::string &name, bool masked, Expr c, int width = 0) const;
    Expr key_in_kv_block(Expr k) const;
    Expr key_at(Expr k, bool inside) const;
    // The pair of row r and the k-th key of KV block c.
    Index index(Expr k, bool inside) const;
    // The score of the sink of a row's head, lowest_score() if there is none.
    Expr sink(Expr head) const;

    Expr kv_block_count() const;
    RDom kv_blocks(const std::string &name) const;
    // Restricts a loop over KV blocks to the ones that every row sees whole, or to the others of which some row sees some key.
    void keep_seen(RDom &, const Expr &kv_block, bool in_whole) const;
    // The KV blocks that every row sees whole, and the others of which some row sees some key.
    std::pair<RDom, RDom> kv_block_domains();

    // Tiles of rows: the results of a KV block; their merge and the output.
    void collect_kv_blocks();
    void merge_tiles();
    // x rounded to the type of the output.
    Expr narrowed(Expr x) const { return attune::narrowed(in.query.type(), x); }

    // Merge of `max_of`, `sum_of` and `pv_of` of the KV blocks; and the part of the merge that needs no values.
    using OfKvBlock = std::function<Expr(Expr c)>;
    void merge_sums(const OfKvBlock &max_of, const OfKvBlock &sum_of);
    void merge(const OfKvBlock &max_of, const OfKvBlock &sum_of, const OfKvBlock &pv_of);

private:
    RDom merged_kv_blocks(const std::string &name) const;
    void widen(KvBlockStages &, const std::string &suffix, bool masked) const;
    void apply_steps(KvBlockStages &, const std::string &suffix, bool masked) const;
    // Weights after dropout and the factor of the score, where there are such.
    void drop_out(KvBlockStages &, const std::string &suffix, bool masked) const;
    Expr seen(Expr first_key, Expr end_key) const;  // by the intervals alone
    BlockSpan block_span(Expr c) const;
    Expr existing(const Expr &channel) const;  // a channel of the values, where a schedule rounds their number up
    Expr key_element(Expr channel, Expr j, Expr key_head) const;
};

// A Builder whose rows are the queries of one query head; or of all query heads that share a key head.
Builder query_rows(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);
Builder group_rows(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);

// Merge for group_rows(): the results of a KV block as one Func, their merge and the output.
void split_merge(Builder &);

}  // namespace attune
