#include "schedules/require.h"
#include "schedules/sdpa/backward_schedules.h"

namespace attune {
using namespace Halide;

// Steps are passes over the logits of a tile in L1, skipped as a whole where their option is not given.
void schedule_backward_scores(const BackwardStages &s, const BackwardTile &tile_stages, const LoopLevel &tile,
                              const BackwardTuning &tuning, int lanes) {
    const Var r = s.r, t = s.t, q = s.q, u = s.u, h = s.h;
    const int keys = tuning.key_vectors * lanes;
    BackwardTile p = tile_stages;
    Var qo("qo"), qi("qi"), ko("ko"), ki("ki");
    auto in_tile = [&](Func f) -> Func {
        f.bound(r, 0, tuning.chunk);
        for (const Var &v : {u, h, t}) f.bound_extent(v, 1);
        return f;
    };
    const bool has_steps = !p.step_queries.empty();
    for (Func f : {p.scaled, p.logit, p.weight, p.dropped, p.kept_gradient, p.score_gradient}) {
        if (!f.defined() || (f.name() == p.logit.name() && !has_steps)) continue;
        in_tile(f.compute_at(tile).bound(q, 0, tuning.tile_q));
        f.split(q, qo, qi, tuning.query_tile).split(r, ko, ki, keys).reorder(ki, qi, ko, qo, u, h, t);
        f.vectorize(ki, lanes).unroll(ki).unroll(qi);
    }
    for (std::size_t n = 0; n < p.step_queries.size(); n++)
        p.logit.update(int(n)).reorder(r, p.step_queries[n], u, h, t).vectorize(r, lanes).unroll(r);
    for (const auto &[product, consumer, along, element] :
         {std::tuple(p.score,
                     p.scaled.defined() ? p.scaled
                     : has_steps        ? p.logit
                                        : p.weight,
                     p.channel, p.channel_element),
          std::tuple(p.weight_gradient, p.kept_gradient.defined() ? p.kept_gradient : p.score_gradient, p.value_channel,
                     p.value_element)}) {
        Func f = product;
        f.compute_at(consumer, ko).bound_extent(q, tuning.query_tile).bound_extent(r, keys);
        for (const Var &v : {u, h, t}) f.bound_extent(v, 1);
        f.vectorize(r, lanes).unroll(r).unroll(q);
        if (s.in_pairs)
            f.update().reorder(element, r, q, along).atomic().vectorize(element);
        else
            f.update().reorder(r, q, along);
        f.update().vectorize(r, lanes).unroll(r).unroll(q);
    }
    if (p.random.defined()) {
        const Var word = p.random.args()[0], four = p.random.args()[1];
        require_multiple("chunk", tuning.chunk, "four keys of each lane", 4 * lanes);
        p.random.compute_at(tile).bound(word, 0, 4).bound(four, 0, tuning.chunk / 4).bound(q, 0, tuning.tile_q);
        for (const Var &v : {u, h, t}) p.random.bound_extent(v, 1);
        p.random.unroll(word).vectorize(four, lanes).unroll(four);
    }
}

void require_tuning(const BackwardTuning &tuning, int lanes) {
    require_multiple("chunk", tuning.chunk, "the keys of key_vectors", tuning.key_vectors * lanes);
    require_multiple("tile_q", tuning.tile_q, "query_tile", tuning.query_tile);
    for (const auto &[name, tile] : {std::pair("tile_q", tuning.tile_q), std::pair("chunk", tuning.chunk)})
        require_multiple(name, tile, "row_tile", tuning.row_tile);
}

void schedule_tile_sum(const BackwardStages &s, const TileSum &sum, const LoopLevel &rows, const Var &row,
                       const BackwardTuning &tuning, int lanes) {
    const Var d = s.d;
    Func part = sum.part;
    part.compute_at(rows).bound_extent(d, tuning.channel_vectors * lanes).bound_extent(row, tuning.row_tile);
    for (const Var &v : {s.u, s.h, s.t}) part.bound_extent(v, 1);
    part.vectorize(d, lanes).unroll(d).unroll(row);
    for (int k = 0; k < int(sum.along.size()); k++) {
        part.update(k).reorder(sum.element[k], d, row, sum.along[k]);
        if (s.in_pairs)
            part.update(k).atomic().vectorize(sum.element[k]);
        else
            part.update(k).unroll(sum.element[k]);
        part.update(k).vectorize(d, lanes).unroll(d).unroll(row);
    }
}

// Of each query and key alone: small, and in full before or after all else.
void schedule_unit_rows(BackwardStages &s) {
    for (Func *f : {&s.query_norm, &s.query_dot, &s.query_size, &s.key_norm, &s.key_dot, &s.key_size})
        if (f->defined()) f->compute_root();
}

void schedule_backward_root(BackwardStages &s, const std::vector<Func> &outputs) {
    for (Func *f : {&s.query_rows, &s.grad_rows, &s.key_rows, &s.key_t, &s.value_t})
        if (f->defined()) f->compute_root();
    schedule_unit_rows(s);
    for (BackwardTile *p : {&s.full, &s.part})
        for (Func *f : {&p->score, &p->scaled, &p->logit, &p->random, &p->weight, &p->dropped, &p->weight_gradient,
                        &p->kept_gradient, &p->score_gradient, &p->query_sum.part, &p->key_sum.part, &p->value_sum.part})
            if (f->defined()) f->compute_root();
    for (Func *f : {&s.query_total, &s.key_total, &s.value_total, &s.weight_total, &s.capture_total})
        if (f->defined()) f->compute_root();
    for (Func f : outputs) f.compute_root();
}

void schedule_backward(BackwardStages &s, const std::vector<Func> &outputs, const BackwardTuning &tuning,
                       const Target &target) {
    const int lanes = target.natural_vector_size(s.full.score.type());
    const int width = tuning.channel_vectors * lanes;
    require_tuning(tuning, lanes);
    const Var r = s.r, t = s.t, q = s.q, u = s.u, d = s.d, h = s.h;
    Var dO("do"), di("di"), ro("ro"), ri("ri");

    for (Func f : outputs) f.compute_root().vectorize(d, lanes, TailStrategy::GuardWithIf);
    // Rows as the sums read them, where they are not read as they lie.
    for (Func f : {s.query_rows, s.grad_rows, s.key_rows})
        if (f.defined()) f.compute_root().vectorize(d, lanes, TailStrategy::RoundUp);
    for (Func f : {s.key_t, s.value_t}) {
        f.compute_root().bound(r, 0, tuning.chunk).vectorize(r, lanes);
        if (s.in_pairs) f.bound(s.e, 0, 2).reorder(s.e, r, d, t).vectorize(s.e);
    }
    if (s.in_pairs)
        for (Func f : {s.query_pairs, s.grad_pairs, s.key_pairs})
            f.compute_root().bound(s.e, 0, 2).reorder(s.e, d).vectorize(d, lanes, TailStrategy::RoundUp).unroll(s.e);

    schedule_unit_rows(s);

    // All totals in one loop over tiles, so that what a tile gives them is computed once.
    struct Total {
        Func total;
        Var row;
        TileSum full, part;
    };
    const std::vector<Total> totals = {{s.query_total, q, s.full.query_sum, s.part.query_sum},
                                       {s.key_total, r, s.full.key_sum, s.part.key_sum},
                                       {s.value_total, r, s.full.value_sum, s.part.value_sum}};
    Func first = totals[0].total;
    for (const Total &x : totals) {
        Func total = x.total;
        total.compute_root().bound(x.row, 0, x.row.same_as(r) ? tuning.chunk : tuning.tile_q);
        total.vectorize(d, lanes, TailStrategy::RoundUp);
    }
    for (int stage = 0; stage < 2; stage++) {
        BackwardTile &p = stage == 0 ? s.full : s.part;
        const BackwardStages::Loops &loops = stage == 0 ? s.full_tiles : s.part_tiles;
        for (std::size_t n = 0; n < totals.size(); n++) {
            Func total = totals[n].total;
            Stage update = total.update(stage);
            update.split(d, dO, di, width, TailStrategy::RoundUp).split(totals[n].row, ro, ri, tuning.row_tile);
            update.reorder(di, ri, ro, dO, loops.query_tile, loops.head, loops.key_tile);
            update.vectorize(di, lanes).unroll(di).unroll(ri).never_partition_all();
            if (n > 0) update.compute_with(first.update(stage), loops.query_tile);
            schedule_tile_sum(s, stage == 0 ? totals[n].full : totals[n].part, {total, ro}, totals[n].row, tuning, lanes);
        }
        schedule_backward_scores(s, p, {first, loops.query_tile}, tuning, lanes);
        if (!s.in_pairs) continue;
        // Rounded by vectors of two.
        for (Func f : {p.weight_pairs, p.gradient_pairs, p.gradient_rows}) {
            f.compute_at(first, loops.query_tile).bound(r, 0, tuning.chunk);
            for (const Var &v : {u, h, t}) f.bound_extent(v, 1);
        }
        for (Func f : {p.weight_pairs, p.gradient_pairs})
            f.bound(s.e, 0, 2).bound(q, 0, tuning.tile_q / 2).vectorize(s.e).vectorize(r, lanes).unroll(r);
        p.gradient_rows.bound(q, 0, tuning.tile_q).vectorize(r, 2 * lanes).unroll(r);
    }
}

void schedule_captures(BackwardStages &s, Func out, const BackwardTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.full.score.type());
    require_tuning(tuning, lanes);
    const Var r = s.r, q = s.q;
    out.compute_root().vectorize(s.j, lanes, TailStrategy::GuardWithIf);
    for (Func f : {s.query_rows, s.grad_rows}) f.compute_root().vectorize(s.d, lanes, TailStrategy::RoundUp);
    for (Func f : {s.key_t, s.value_t}) f.compute_root().bound(r, 0, tuning.chunk).vectorize(r, lanes);
    schedule_unit_rows(s);
    s.capture_total.compute_root().bound(r, 0, tuning.chunk).bound(q, 0, tuning.tile_q).vectorize(r, lanes);
    for (const bool full : {true, false}) {
        const BackwardStages::Loops &loops = full ? s.full_tiles : s.part_tiles;
        s.capture_total.update(full ? 0 : 1)
            .reorder(r, full ? s.full_query : s.part_query, loops.query_tile, loops.key_tile)
            .vectorize(r, lanes)
            .unroll(r);
        schedule_backward_scores(s, full ? s.full : s.part, {s.capture_total, loops.query_tile}, tuning, lanes);
    }
}

void schedule_captured(BackwardStages &s, Func out, const BackwardTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.full.score.type());
    require_tuning(tuning, lanes);
    const Var r = s.r, q = s.q;
    for (Func f : {s.query_rows, s.grad_rows}) f.compute_root().vectorize(s.d, lanes, TailStrategy::RoundUp);
    for (Func f : {s.key_t, s.value_t}) f.compute_root().bound(r, 0, tuning.chunk).vectorize(r, lanes);
    schedule_unit_rows(s);
    out.compute_root();
    for (const bool full : {true, false}) {
        const BackwardStages::Loops &loops = full ? s.full_tiles : s.part_tiles;
        const RVar read = full ? s.full_read : s.part_read;
        const BackwardTile &p = full ? s.full : s.part;
        Stage sum = out.update(full ? 0 : 1);
        sum.reorder(read, loops.key, loops.query, loops.query_tile, loops.key_tile).unroll(read).never_partition_all();
        for (Func added : p.contributions) {
            added.compute_at(out, loops.query_tile).bound(r, 0, tuning.chunk).bound(q, 0, tuning.tile_q).vectorize(r, lanes);
            for (const Var &v : {s.u, s.h, s.t}) added.bound_extent(v, 1);
        }
        schedule_backward_scores(s, p, {out, loops.query_tile}, tuning, lanes);
    }
}

}  // namespace attune
