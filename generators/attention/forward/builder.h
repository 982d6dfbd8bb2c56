// How the stages of an attention are made, shared by the forms of it (blocked_stages.cpp, weights_stages.cpp).
#pragma once
#include "generators/attention/forward/blocked_stages.h"
#include "generators/math/exp2.h"
#include "generators/math/narrowed.h"

namespace attune {

// The least score that counts, from which a row maximum starts: lower ones and -inf mask. And the score of a masked pair:
// finite, because Halide's code generation assumes no Inf. A masked weight is 0 by its mark, not by the distance of the two.
Halide::Expr lowest_score(const Halide::Type &);
Halide::Expr masked_score(const Halide::Type &);

// What is masked is -0 as a weight and as the gradient by a score: that adds nothing to a sum, and a product sees by it alone
// that the pair is masked. x, or -0 where it is not kept; whether x is not masked; 0 with the mark of x, of what dropout drops.
Halide::Expr kept_or_marked(const Halide::Expr &kept, const Halide::Expr &x);
// The same of numbers of any sign: a -0 that arithmetic made becomes 0, or it would look masked.
Halide::Expr signed_kept_or_marked(const Halide::Expr &kept, const Halide::Expr &x);
Halide::Expr counts(const Halide::Expr &x);
Halide::Expr marked_zero(const Halide::Expr &x);

// -inf as unsigned integer, because arithmetic on it would be undefined.
Halide::Expr minus_infinity_bits(Halide::Type);

// The term of one channel of a pair, of what query and key give; and as it is summed.
Halide::Expr computed_term(const PairTerm &, const Halide::Expr &query, const Halide::Expr &key);
Halide::Expr contribution_of(const PairTerm &, const Halide::Expr &term);
Halide::Expr weighted_term(const PairTerm &, const Halide::Expr &query, const Halide::Expr &key, const Halide::Expr &channel);

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
    const SdpaShape &shape;
    const Score &score;
    std::function<Rows(Expr r, Expr t, Expr h)> rows;
    std::function<std::pair<Expr, Expr>(Expr t)> queries_of;  // first and last query of a tile
    SdpaStages s = {};
    Halide::Type type = shape.accumulator;
    Func prepared_key = {};
    KeyShare share = {};

    Expr value_of(double x) const { return Halide::Internal::make_const(type, x); }
    // 2^ of the exponent of a difference of two scores, which is not above 0: the weight of a score beside the maximum. A score
    // is not scaled where no step follows (Score::scales_scores): the scale then joins log2(e) behind the difference, so that
    // neither rounds a score before the maximum is taken off.
    Expr power_of(const Expr &difference) const { return exp2_nonpositive(difference, per_score(), shape.powers); }
    Expr per_score() const;  // what a score is multiplied by as an exponent of 2, not below 0
    // The exponent of 2 of such a difference, for devices' instruction.
    Expr base2(const Expr &difference) const { return Halide::strict_float(difference * per_score()); }
    // An element of a query, negated where scores are not scaled and the scale is negative.
    Expr signed_query(const Expr &element) const;
    // A score in natural units, as lse and raw scores have it.
    Expr natural(const Expr &score) const;
    // Below every score that counts. False for NaN.
    Expr is_masked(Expr logit) const;

    // Some row sees some key of chunk c; of `width` keys of it.
    Expr seen(Expr c) const;
    Expr seen_keys(Expr c, Expr first_in_chunk, int width) const;
    // Begin and end of the keys that the intervals of all rows hold; they hold all of chunk c; and no step masks any of it either.
    std::pair<Expr, Expr> seen_by_all() const;
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
    // The weight, marked where the logit is masked.
    Expr marked(Expr weight, Expr logit) const;

    // The score of the sink of a row's head, lowest_score() if there is none.
    Expr sink(Expr head) const;
    Expr sink_weight(Expr sink, Expr total_max) const;

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
Builder query_rows(const SdpaInputs &, const SdpaShape &, const Score &);
Builder group_rows(const SdpaInputs &, const SdpaShape &, const Score &);

// Of a group's rows: what leaves a chunk as one Func, their merge and the output.
void split_merge(Builder &);

}  // namespace attune
