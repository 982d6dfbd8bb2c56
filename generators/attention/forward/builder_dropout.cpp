// SPDX-License-Identifier: MIT
#include "generators/attention/forward/builder.h"
#include "generators/math/philox.h"
#include "generators/math/precise.h"

namespace attune {
using namespace Halide;

void Builder::drop_out(KvBlockStages &p, const std::string &suffix, bool masked) const {
    const bool drops = in.dropout.threshold.defined();
    if (!drops && !score.probability) return;
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b, four("four");
    Expr w = p.weight(r, k, c, t, h, b), left = w;
    if (drops) {
        Rows row = rows(r, t, h);
        const Expr head = cast(UInt(32), b) * in.dropout.heads + cast(UInt(32), row.query_head) + in.dropout.first_head;
        const auto words = dropout_words_from(in.dropout.first_key, c * (numerics.kv_block / 4) + four,
                                              cast(UInt(32), row.query) + in.dropout.first_query, head, in.dropout.offset,
                                              {in.dropout.seed_low, in.dropout.seed_high});
        p.random = Func("random" + suffix);
        p.random(r, four, c, t, h, b) = Tuple(words[0], words[1], words[2], words[3]);
        FuncRef at = p.random(r, k / 4, c, t, h, b);
        Expr kept = mux(k % 4, {at[0], at[1], at[2], at[3]}) >= in.dropout.threshold;
        left = select(kept, w, marked_zero(w));
    }
    if (score.probability) {
        left *= cast(type, precise(score.probability(index(k, !masked))));
        // The factor may have any sign.
        if (masked) left = signed_kept_or_marked(counts(w), left);
    }
    p.dropped = Func("dropped" + suffix);
    p.dropped(r, k, c, t, h, b) = left;
}

}  // namespace attune
