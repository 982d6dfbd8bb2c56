// What the schedules whose lanes are queries share: the scores of one chunk.
#include "schedules/sdpa/sdpa_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

void schedule_prepared(const std::vector<Func> &prepared, int lanes) {
    for (Func f : prepared) {
        f.compute_root();
        if (f.has_update_definition() || f.dimensions() == 0) continue;
        f.vectorize(f.args()[0], lanes, TailStrategy::GuardWithIf);
        if (f.dimensions() == 4) f.fuse(f.args()[2], f.args()[3], f.args()[3]).parallel(f.args()[3]);
    }
}

void schedule_blocks(Stage consumer, Func of, VarOrRVar row, VarOrRVar column, const std::vector<BlockTranspose> &tables) {
    const int side = tables[0].side;
    const std::string name = column.name();
    // Named after the column, which tells the stages of a Func apart: Halide finds the place of a table by name.
    Var row_block(name + "_row_block"), in_row("in_row");
    VarOrRVar column_block(name + "_block", column.is_rvar), in_column(name + "_in", column.is_rvar);
    consumer.split(row, row_block, in_row, side)
        .split(column, column_block, in_column, side)
        .reorder({in_row, in_column, column_block, row_block})
        .vectorize(in_row)
        .unroll(in_column);
    for (const BlockTranspose &table : tables) schedule_transpose(table, LoopLevel(of, column_block));
}

void schedule_scores(const SdpaStages &s, const SdpaPartials &partials, Func at, RVar chunk, int key_tile, int lanes,
                     const OneTask &one_task) {
    const Var r = s.r, k = s.k;
    Var ko("ko"), ki("ki");
    SdpaPartials p = partials;
    // First product: a register tile of tile_q rows by key_tile keys.
    p.logit.compute_at(at, chunk).split(k, ko, ki, key_tile).reorder(r, ki, ko);
    one_task(p.logit).vectorize(r, lanes).unroll(r).unroll(ki);
    one_task(p.score.compute_at(p.logit, ko)).vectorize(r, lanes).unroll(r).unroll(k);
    p.score.update().reorder(r, k, p.channel).vectorize(r, lanes).unroll(r).unroll(k);
    // Steps: one pass each over the scores in L1, skipped as a whole where its option is not given.
    for (const ScoreUpdate &step : p.steps) {
        if (step.tables.empty())
            p.logit.update(step.update).reorder(r, step.key).vectorize(r, lanes).unroll(r);
        else
            schedule_blocks(p.logit.update(step.update), p.logit, r, step.key, step.tables);
    }
}

}  // namespace attune
