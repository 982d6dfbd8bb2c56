// SPDX-License-Identifier: MIT
// How the stages of an attention are made, shared by the forms of it (blocked_stages.cpp, weights_stages.cpp).
#pragma once
#include "generators/attention/equations/blocked_softmax.h"
#include "generators/attention/equations/intervals.h"
#include "generators/attention/forward/blocked_stages.h"
#include "generators/math/narrowed.h"

namespace attune {

// Which query and heads a row stands for.
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

// Where a row's keys of a KV block are interleaved over several rows of a tile that stand for one query: how many each has, and
// which key of the KV block the k-th one of row r is.
struct KeyShare {
    int keys = 0;  // 0: all of them, in order
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

    // Some row sees some key of KV block c; of `width` keys of it.
    Expr seen(Expr c) const;
    Expr seen_keys(Expr c, Expr first_in_kv_block, int width) const;
    // The band of a batch entry, and the keys that some row and that all rows of a tile see by their intervals; KV block c lies
    // within the latter; and no step masks any of it either.
    Band band() const { return {in.band_begin(s.b), in.band_end(s.b)}; }
    Span seen_by_some_row() const;
    Span seen_by_all_rows() const;
    Expr within_intervals(Expr c) const;
    Expr whole(Expr c) const;
    // How many blocks of so many keys every row sees, from the begin of KV block c on.
    Expr whole_blocks(Expr c, int width) const;
    // `within`, and no step masks any key of KV block c.
    Expr unmasked(Expr c, Expr within) const;

    void prepare();
    void intervals();
    void queries();
    // qk and score of all keys of a KV block, those that are masked too where `masked` is set.
    KvBlockStages scores(const std::string &suffix, bool masked) const;
    // The same and all that follows from them within the KV block.
    KvBlockStages block_stages(const std::string &suffix, bool masked) const;
    void all_block_stages();
    // Parts of those: what follows from `qk`, from `score`, and from both it and `row_max`. where_read: scores that no step
    // changes are scaled and masked wherever they are read, and `score` is no update then, and needs no stage.
    void finish_scores(KvBlockStages &, const std::string &suffix, bool masked, bool where_read = false) const;
    // Of what finish_scores() left, unless it took the maxima itself; and of a score of these keys.
    void row_max(KvBlockStages &, const std::string &suffix, bool masked) const;
    void take_max(KvBlockStages &, const std::string &suffix, const KvBlockKeys &, const Expr &score_value) const;
    // The key of an update that another one is to be joined to, with joins_passes.
    Expr joined(const Expr &key) const;
    void weigh(KvBlockStages &, const std::string &suffix, bool masked) const;
    // The keys of KV block c in blocks of `width`; 0: as narrow as it takes to leave out what is not seen.
    KvBlockKeys kv_block_keys(const std::string &name, bool masked, Expr c, int width = 0) const;
    Expr key_in_kv_block(Expr k) const;
    Expr key_at(Expr k, bool inside) const;
    // The score of the sink of a row's head, lowest_score() if there is none.
    Expr sink(Expr head) const;

    Expr kv_block_count() const;
    RDom kv_blocks(const std::string &name) const;
    // Leaves a loop over KV blocks those that every row sees whole, or the others of which some row sees some key.
    void keep_seen(RDom &, const Expr &kv_block, bool in_whole) const;
    // The KV blocks that every row sees whole, and the others of which some row sees some key.
    std::pair<RDom, RDom> kv_block_domains();

    // Tiles of rows: what leaves a KV block; their merge and the output.
    void collect_kv_blocks();
    void merge_tiles();
    // In the type of the output.
    Expr narrowed(Expr x) const { return attune::narrowed(in.query.type(), x); }

    // Merge of what `max_of`, `sum_of` and `pv_of` give for a KV block; and its part that needs no values.
    using OfKvBlock = std::function<Expr(Expr c)>;
    void merge_sums(const OfKvBlock &max_of, const OfKvBlock &sum_of);
    void merge(const OfKvBlock &max_of, const OfKvBlock &sum_of, const OfKvBlock &pv_of);

private:
    RDom merged_kv_blocks(const std::string &name) const;
    void widen(KvBlockStages &, const std::string &suffix, bool masked) const;
    void apply_steps(KvBlockStages &, const std::string &suffix, bool masked) const;
    // Of the weights what dropout and the factor of the score leave, where there are such.
    void drop_out(KvBlockStages &, const std::string &suffix, bool masked) const;
    Expr seen(Expr first_key, Expr end_key) const;  // by the intervals alone
    BlockSpan block_span(Expr c) const;
    Expr existing(const Expr &channel) const;  // of the values, where a schedule rounds their number up
    Expr key_element(Expr channel, Expr j, Expr key_head) const;
    Index index(Expr k, bool inside) const;
};

// A Builder whose rows are the queries of one query head; of all query heads that share a key head.
Builder query_rows(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);
Builder group_rows(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);

// Of a group's rows: what leaves a KV block as one Func, their merge and the output.
void split_merge(Builder &);

}  // namespace attune
