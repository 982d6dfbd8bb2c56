// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/amx_tiles.h"
#include "schedules/sdpa/backward_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

BackwardHints hints_for_backward_root(const BackwardParameters &parameters, const Type &, int head_dim) {
    return {head_dim == 0, parameters.block_queries, parameters.block_keys, true};
}

BackwardHints hints_for_backward(const BackwardParameters &parameters, const Type &accumulator, int head_dim) {
    BackwardHints hints = hints_for_backward_bf16_dot(parameters, accumulator, head_dim);
    const int side = block_side(accumulator, {parameters.kv_block});
    if (side > 1) hints.transposed_block = side;
    return hints;
}

BackwardHints hints_for_backward_bf16_dot(const BackwardParameters &parameters, const Type &, int head_dim) {
    return {head_dim == 0, parameters.block_queries, parameters.block_keys};
}

namespace {

using BlockedStage = std::pair<Func, TileBlocks>;

bool has_steps(const BackwardTile &p) { return !p.step_queries.empty() || !p.step_blocks.empty(); }

// A stage of one tile of queries by keys.
Func in_one_tile(const BackwardStages &s, Func f, const BackwardParameters &parameters) {
    f.bound(s.r, 0, parameters.kv_block);
    for (const Var &v : {s.u, s.h, s.t}) f.bound_extent(v, 1);
    return f;
}

Stage by_blocks(Func f, int update, const TileBlocks &loops, int lanes) {
    Stage stage = f.update(update);
    // Pairs of a block are distinct; Halide does not see that key and key block together give distinct keys.
    stage.allow_race_conditions();
    stage.reorder(loops.key, loops.query, loops.key_block, loops.query_block).vectorize(loops.key, lanes);
    return stage;
}

// Stages of each pair, in register tiles or in blocks.
void schedule_pairs_of_tile(const BackwardStages &s, const BackwardTile &p, const LoopLevel &tile,
                            const BackwardParameters &parameters, int lanes) {
    const int keys = parameters.key_vectors * lanes;
    Var qo("qo"), qi("qi"), ko("ko"), ki("ki");
    for (const auto &[f, blocks] : {BlockedStage(p.scaled, p.scaled_blocks), BlockedStage(p.score, p.score_blocks),
                                    BlockedStage(p.weight, p.weight_blocks), BlockedStage(p.dropped, p.dropped_blocks),
                                    BlockedStage(p.kept, p.kept_blocks), BlockedStage(p.score_gradient, p.gradient_blocks)}) {
        if (!f.defined() || (f.name() == p.score.name() && !has_steps(p))) continue;
        Func stage = in_one_tile(s, f, parameters);
        stage.compute_at(tile).bound(s.q, 0, parameters.tile_q);
        if (p.in_blocks) {
            stage.vectorize(s.r, lanes);
            by_blocks(stage, 0, blocks, lanes).unroll(blocks.key).unroll(blocks.query);
            continue;
        }
        stage.split(s.q, qo, qi, parameters.query_tile).split(s.r, ko, ki, keys).reorder(ki, qi, ko, qo, s.u, s.h, s.t);
        stage.vectorize(ki, lanes).unroll(ki).unroll(qi);
    }
}

// Products over channels, for scores and gradients of weights, placed at the register tiles of their consumers.
void schedule_products(const BackwardStages &s, const BackwardTile &p, const LoopLevel &tile,
                       const BackwardParameters &parameters, int lanes) {
    const Var r = s.r, q = s.q, ko("ko");
    const BlockedStage of_score = p.scaled.defined() ? BlockedStage(p.scaled, p.scaled_blocks)
                                  : has_steps(p)     ? BlockedStage(p.score, p.score_blocks)
                                                     : BlockedStage(p.weight, p.weight_blocks);
    const BlockedStage of_gradient =
        p.kept.defined() ? BlockedStage(p.kept, p.kept_blocks) : BlockedStage(p.score_gradient, p.gradient_blocks);
    for (const auto &[product, consumer, along, element] :
         {std::tuple(p.qk, of_score, p.channel, p.channel_element),
          std::tuple(p.weight_gradient, of_gradient, p.value_channel, p.value_element)}) {
        Func f = product;
        if (s.in_amx_tiles) {
            Func copied = f.in();
            in_one_tile(s, copied.compute_at(tile), parameters).bound(q, 0, parameters.tile_q);
            schedule_amx_tiles(copied, f, {r, parameters.kv_block}, {q, parameters.tile_q}, along);
            continue;
        }
        f.compute_at(p.in_blocks ? LoopLevel(consumer.first, consumer.second.key_block) : LoopLevel(consumer.first, ko));
        f.bound_extent(q, p.in_blocks ? parameters.block_queries : parameters.query_tile);
        f.bound_extent(r, p.in_blocks ? parameters.block_keys : parameters.key_vectors * lanes);
        for (const Var &v : {s.u, s.h, s.t}) f.bound_extent(v, 1);
        f.vectorize(r, lanes).unroll(r).unroll(q);
        if (s.in_pairs)
            f.update().reorder(element, r, q, along).atomic().vectorize(element);
        else
            f.update().reorder(r, q, along);
        f.update().vectorize(r, lanes).unroll(r).unroll(q);
    }
}

void schedule_random(const BackwardStages &s, Func random, const LoopLevel &tile, const BackwardParameters &parameters,
                     int lanes) {
    const Var word = random.args()[0], four = random.args()[1];
    require_multiple("kv_block", parameters.kv_block, "four keys of each lane", 4 * lanes);
    random.compute_at(tile).bound(word, 0, 4).bound(four, 0, parameters.kv_block / 4).bound(s.q, 0, parameters.tile_q);
    for (const Var &v : {s.u, s.h, s.t}) random.bound_extent(v, 1);
    random.unroll(word).vectorize(four, lanes).unroll(four);
}

}  // namespace

// Steps are passes over the scores of a tile in L1, and skipped as a whole where their option is not given.
void schedule_backward_scores(const BackwardStages &s, const BackwardTile &p, const LoopLevel &tile,
                              const BackwardParameters &parameters, int lanes) {
    Func score = p.score;
    schedule_pairs_of_tile(s, p, tile, parameters, lanes);
    for (std::size_t n = 0; n < p.step_queries.size(); n++)
        score.update(int(n)).reorder(s.r, p.step_queries[n], s.u, s.h, s.t).vectorize(s.r, lanes).unroll(s.r);
    for (std::size_t n = 0; n < p.step_blocks.size(); n++) by_blocks(score, int(n) + 1, p.step_blocks[n], lanes);
    schedule_products(s, p, tile, parameters, lanes);
    if (p.random.defined()) schedule_random(s, p.random, tile, parameters, lanes);
}

void require_parameters(const BackwardParameters &parameters, int lanes) {
    require_multiple("kv_block", parameters.kv_block, "the keys of key_vectors", parameters.key_vectors * lanes);
    require_multiple("tile_q", parameters.tile_q, "query_tile", parameters.query_tile);
    require_multiple("tile_q", parameters.tile_q, "block_queries", parameters.block_queries);
    require_multiple("kv_block", parameters.kv_block, "block_keys", parameters.block_keys);
    require_multiple("block_keys", parameters.block_keys, "the vector width", lanes);
    for (const auto &[name, rows] :
         {std::pair("block_queries", parameters.block_queries), std::pair("block_keys", parameters.block_keys)})
        require_multiple(name, rows, "row_tile", parameters.row_tile);
}

void schedule_tile_sum(const BackwardStages &s, const TileSum &sum, const LoopLevel &rows, const BackwardParameters &parameters,
                       int lanes) {
    const Var d = s.d, row = sum.part.args()[1], block = sum.part.args()[2];
    Func part = sum.part;
    part.compute_at(rows).bound_extent(d, parameters.channel_vectors * lanes).bound_extent(row, parameters.row_tile);
    for (const Var &v : {block, s.u, s.h, s.t}) part.bound_extent(v, 1);
    part.vectorize(d, lanes).unroll(d).unroll(row);
    for (int k = 0; k < int(sum.along.size()); k++) {
        part.update(k).reorder(sum.element[k], d, row, sum.along[k], sum.block[k], block);
        if (s.in_pairs)
            part.update(k).atomic().vectorize(sum.element[k]);
        else
            part.update(k).unroll(sum.element[k]);
        part.update(k).vectorize(d, lanes).unroll(d).unroll(row);
    }
}

// Stages of each query and key alone: small, and computed in full before or after all others.
void schedule_unit_rows(BackwardStages &s) {
    for (Func *f : {&s.query_norm, &s.query_dot, &s.query_size, &s.key_norm, &s.key_dot, &s.key_size})
        if (f->defined()) f->compute_root();
}

void schedule_rows_and_totals(BackwardStages &s, const BackwardParameters &parameters, int lanes) {
    // Register tiles of gradients compute with all of their channels, which must not be what scratch held (linear_tasks.h).
    const int width = parameters.channel_vectors * lanes;
    for (Func f : {s.query_rows, s.grad_rows, s.key_rows, s.query_total, s.key_total, s.weight_total, s.value_total})
        if (f.defined()) f.compute_root().align_bounds(s.d, width).vectorize(s.d, lanes, TailStrategy::RoundUp);
}

void schedule_key_columns(BackwardStages &s, const BackwardParameters &parameters, int lanes) {
    Var channel_block("channel_block"), channel("channel");
    for (auto [columns, blocks] : {std::pair(s.key_t, s.key_blocks), std::pair(s.value_t, s.value_blocks)}) {
        columns.compute_root().bound(s.r, 0, parameters.kv_block);
        if (blocks) {
            columns.split(s.d, channel_block, channel, blocks->side, TailStrategy::RoundUp);
            schedule_blocks(columns, columns, s.r, channel, channel_block, {*blocks});
            continue;
        }
        columns.vectorize(s.r, lanes);
        if (s.in_pairs) columns.bound(s.e, 0, 2).reorder(s.e, s.r, s.d, s.t).vectorize(s.e);
    }
}

// Read once, with channels as lanes.
void schedule_magnitudes(BackwardStages &s, int lanes) {
    for (Func f : s.channel_bits) {
        f.compute_root().vectorize(s.d, lanes, TailStrategy::RoundUp);
        f.update().vectorize(s.d, lanes, TailStrategy::RoundUp);
    }
    s.largest_bits.compute_root();
}

void schedule_rounding(const BackwardStages &s, const BackwardTile &p, const LoopLevel &tile,
                       const BackwardParameters &parameters, int lanes) {
    const Var r = s.r, q = s.q, e = s.e;
    // Rounded two vectors at a time.
    auto one_tile = [&](Func f) -> Func {
        f.compute_at(tile).bound(r, 0, parameters.kv_block);
        for (const Var &v : {s.u, s.h, s.t}) f.bound_extent(v, 1);
        return f;
    };
    one_tile(p.gradient_rows).bound(q, 0, parameters.tile_q).vectorize(r, 2 * lanes).unroll(r);
    for (const auto &parts : {p.weight_pairs, p.gradient_pairs})
        for (Func f : parts) {
            one_tile(f).bound(e, 0, 2).bound(q, 0, parameters.tile_q / 2);
            parts.size() > 1 ? f.unroll(e) : f.vectorize(e);
            f.vectorize(r, lanes).unroll(r);
        }
}

void schedule_grad_bias(BackwardStages &s, int lanes) {
    for (std::size_t stage = 0; stage < s.bias_loops.size(); stage++) {
        const BackwardStages::PairLoops &loops = s.bias_loops[stage];
        Stage update = s.bias_out.update(int(stage));
        update.reorder(loops.key, loops.query, loops.query_tile, loops.head, loops.key_tile);
        // Each pair has its own element, though loops are reductions to Halide.
        update.allow_race_conditions().vectorize(loops.key, lanes).never_partition_all();
        if (stage < 2) update.compute_with(s.query_total.update(int(stage)), loops.query_tile);
    }
}

void schedule_backward_root(BackwardStages &s, const std::vector<Func> &outputs) {
    for (Func *f : {&s.query_rows, &s.grad_rows, &s.key_rows, &s.key_t, &s.value_t})
        if (f->defined()) f->compute_root();
    schedule_unit_rows(s);
    for (BackwardTile *p : {&s.full, &s.partial})
        for (Func *f : {&p->qk, &p->scaled, &p->score, &p->random, &p->weight, &p->dropped, &p->weight_gradient, &p->kept,
                        &p->score_gradient, &p->query_sum.part, &p->key_sum.part, &p->value_sum.part})
            if (f->defined()) f->compute_root();
    for (Func *f : {&s.query_total, &s.key_total, &s.value_total, &s.weight_total, &s.capture_total, &s.largest_bits})
        if (f->defined()) f->compute_root();
    for (Func f : s.channel_bits) f.compute_root();
    for (Func f : outputs) f.compute_root();
}

void schedule_backward(BackwardStages &s, const std::vector<Func> &outputs, const BackwardParameters &parameters,
                       const Target &target) {
    const int lanes = target.natural_vector_size(s.full.qk.type());
    const int width = parameters.channel_vectors * lanes;
    require_parameters(parameters, lanes);
    const Var r = s.r, q = s.q, d = s.d;
    Var dO("do"), di("di"), ro("ro"), ri("ri");

    for (Func f : outputs) {
        f.compute_root();
        if (f.name() != s.bias_out.name()) f.vectorize(d, lanes, TailStrategy::GuardWithIf);
    }
    // Rows as the sums read them, where they are not read in place.
    schedule_rows_and_totals(s, parameters, lanes);
    schedule_key_columns(s, parameters, lanes);
    schedule_magnitudes(s, lanes);
    if (s.in_pairs)
        for (Func f : {s.query_pairs, s.grad_pairs, s.key_pairs})
            f.compute_root().bound(s.e, 0, 2).reorder(s.e, d).vectorize(d, lanes, TailStrategy::RoundUp).unroll(s.e);

    schedule_unit_rows(s);

    // All totals in one loop over tiles, so that the results of a tile that they share are computed once.
    struct Total {
        Func total;
        Var row;
        TileSum full, partial;
    };
    const std::vector<Total> totals = {{s.query_total, q, s.full.query_sum, s.partial.query_sum},
                                       {s.key_total, r, s.full.key_sum, s.partial.key_sum},
                                       {s.value_total, r, s.full.value_sum, s.partial.value_sum}};
    Func first = totals[0].total;
    for (const Total &x : totals) {
        Func total = x.total;
        total.bound(x.row, 0, x.row.same_as(r) ? parameters.kv_block : parameters.tile_q);
    }
    for (int stage = 0; stage < 2; stage++) {
        BackwardTile &p = stage == 0 ? s.full : s.partial;
        const BackwardStages::Loops &loops = stage == 0 ? s.full_tiles : s.partial_tiles;
        for (std::size_t n = 0; n < totals.size(); n++) {
            Func total = totals[n].total;
            Stage update = total.update(stage);
            update.split(d, dO, di, width, TailStrategy::RoundUp).split(totals[n].row, ro, ri, parameters.row_tile);
            update.reorder(di, ri, ro, dO, loops.key, loops.query, loops.query_tile, loops.head, loops.key_tile);
            update.vectorize(di, lanes).unroll(di).unroll(ri).never_partition_all();
            if (n > 0) update.compute_with(first.update(stage), loops.query_tile);
            schedule_tile_sum(s, stage == 0 ? totals[n].full : totals[n].partial, {total, ro}, parameters, lanes);
        }
        schedule_backward_scores(s, p, {first, loops.query_tile}, parameters, lanes);
        if (s.in_pairs) schedule_rounding(s, p, {first, loops.query_tile}, parameters, lanes);
    }
    schedule_grad_bias(s, lanes);
}

void schedule_captures(BackwardStages &s, Func out, const BackwardParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.full.qk.type());
    require_parameters(parameters, lanes);
    const Var r = s.r, q = s.q;
    out.compute_root().vectorize(s.j, lanes, TailStrategy::GuardWithIf);
    for (Func f : {s.query_rows, s.grad_rows}) f.compute_root().vectorize(s.d, lanes, TailStrategy::RoundUp);
    schedule_key_columns(s, parameters, lanes);
    schedule_unit_rows(s);
    s.capture_total.compute_root().bound(r, 0, parameters.kv_block).bound(q, 0, parameters.tile_q).vectorize(r, lanes);
    for (const bool full : {true, false}) {
        const BackwardStages::Loops &loops = full ? s.full_tiles : s.partial_tiles;
        s.capture_total.update(full ? 0 : 1)
            .reorder(r, full ? s.full_query : s.partial_query, loops.query_tile, loops.key_tile)
            .vectorize(r, lanes)
            .unroll(r);
        schedule_backward_scores(s, full ? s.full : s.partial, {s.capture_total, loops.query_tile}, parameters, lanes);
    }
}

void schedule_captured(BackwardStages &s, Func out, const BackwardParameters &parameters, const Target &target) {
    // The score reads no buffer with a gradient: the kernel does nothing.
    if (!s.captured.has_update_definition()) return;
    const int lanes = target.natural_vector_size(s.full.qk.type());
    require_parameters(parameters, lanes);
    const Var r = s.r, q = s.q;
    for (Func f : {s.query_rows, s.grad_rows}) f.compute_root().vectorize(s.d, lanes, TailStrategy::RoundUp);
    schedule_key_columns(s, parameters, lanes);
    schedule_unit_rows(s);
    out.compute_root();
    for (const bool full : {true, false}) {
        const BackwardStages::Loops &loops = full ? s.full_tiles : s.partial_tiles;
        const RVar read = full ? s.full_read : s.partial_read;
        const BackwardTile &p = full ? s.full : s.partial;
        Stage sum = out.update(full ? 0 : 1);
        sum.reorder(read, loops.key, loops.query, loops.query_tile, loops.key_tile).unroll(read).never_partition_all();
        for (Func added : p.contributions) {
            added.compute_at(out, loops.query_tile)
                .bound(r, 0, parameters.kv_block)
                .bound(q, 0, parameters.tile_q)
                .vectorize(r, lanes);
            for (const Var &v : {s.u, s.h, s.t}) added.bound_extent(v, 1);
        }
        schedule_backward_scores(s, p, {out, loops.query_tile}, parameters, lanes);
    }
}

}  // namespace attune
