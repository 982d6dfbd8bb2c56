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

// A reduction over the keys of a chunk.
struct ChunkKeys {
    Halide::RDom dom;
    int width;
    Halide::Expr key() const { return dom.y * width + dom.x; }
    KeyLoop loop() const { return {dom.x, dom.y}; }
};

// Where a row's keys of a chunk are dealt to several rows of a tile that stand for one query: how many each has, and which key
// of the chunk the k-th one of row r is.
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

    // Some row sees some key of chunk c; of `width` keys of it.
    Expr seen(Expr c) const;
    Expr seen_keys(Expr c, Expr first_in_chunk, int width) const;
    // The band of a batch entry, and the keys that some row and that all rows of a tile see by their intervals; chunk c lies
    // within the latter; and no step masks any of it either.
    Band band() const { return {in.band_begin(s.b), in.band_end(s.b)}; }
    Span seen_by_some_row() const;
    Span seen_by_all_rows() const;
    Expr within_intervals(Expr c) const;
    Expr whole(Expr c) const;
    // How many blocks of so many keys every row sees, from the begin of chunk c on.
    Expr whole_blocks(Expr c, int width) const;
    // `within`, and no step masks any key of chunk c.
    Expr unmasked(Expr c, Expr within) const;

    void prepare();
    void intervals();
    void queries();
    // score and logit of all keys of a chunk, those that are masked too where `masked` is set.
    SdpaPartials scores(const std::string &suffix, bool masked) const;
    // The same and all that follows from them within the chunk.
    SdpaPartials partials(const std::string &suffix, bool masked) const;
    void all_partials();
    // Parts of those: what follows from `score`, from `logit`, and from both it and `row_max`. where_read: scores that no step
    // changes are scaled and masked wherever they are read, and `logit` is no update then, and needs no stage.
    void finish_scores(SdpaPartials &, const std::string &suffix, bool masked, bool where_read = false) const;
    // Of what finish_scores() left, unless it took the maxima itself; and of a logit of these keys.
    void row_max(SdpaPartials &, const std::string &suffix, bool masked) const;
    void take_max(SdpaPartials &, const std::string &suffix, const ChunkKeys &, const Expr &logit) const;
    // The key of an update that another one is to be joined to, with joins_passes.
    Expr joined(const Expr &key) const;
    void weigh(SdpaPartials &, const std::string &suffix, bool masked) const;
    // The keys of chunk c in blocks of `width`; 0: as narrow as it takes to leave out what is not seen.
    ChunkKeys chunk_keys(const std::string &name, bool masked, Expr c, int width = 0) const;
    Expr key_in_chunk(Expr k) const;
    Expr key_at(Expr k, bool inside) const;
    // The score of the sink of a row's head, lowest_score() if there is none.
    Expr sink(Expr head) const;

    Expr chunk_count() const;
    RDom chunks(const std::string &name) const;
    // Leaves a loop over chunks those that every row sees whole, or the others of which some row sees some key.
    void keep_seen(RDom &, const Expr &chunk, bool in_whole) const;
    // The chunks that every row sees whole, and the others of which some row sees some key.
    std::pair<RDom, RDom> chunk_domains();

    // Tiles of rows: what leaves a chunk; their merge and the output.
    void collect_chunks();
    void merge_tiles();
    // In the type of the output.
    Expr narrowed(Expr x) const { return attune::narrowed(in.query.type(), x); }

    // Merge of what `max_of`, `sum_of` and `mixed_of` give for a chunk; and its part that needs no values.
    using OfChunk = std::function<Expr(Expr c)>;
    void merge_sums(const OfChunk &max_of, const OfChunk &sum_of);
    void merge(const OfChunk &max_of, const OfChunk &sum_of, const OfChunk &mixed_of);

private:
    RDom merged_chunks(const std::string &name) const;
    void widen(SdpaPartials &, const std::string &suffix, bool masked) const;
    void apply_steps(SdpaPartials &, const std::string &suffix, bool masked) const;
    // Of the weights what dropout and the factor of the score leave, where there are such.
    void drop_out(SdpaPartials &, const std::string &suffix, bool masked) const;
    Expr seen(Expr first_key, Expr end_key) const;  // by the intervals alone
    BlockSpan block_span(Expr c) const;
    Expr existing(const Expr &channel) const;  // of the values, where a schedule rounds their number up
    Expr key_element(Expr channel, Expr j, Expr key_head) const;
    Index index(Expr k, bool inside) const;
};

// A Builder whose rows are the queries of one query head; of all query heads that share a key head.
Builder query_rows(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);
Builder group_rows(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);

// Of a group's rows: what leaves a chunk as one Func, their merge and the output.
void split_merge(Builder &);

}  // namespace attune
