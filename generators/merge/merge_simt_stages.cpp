// SPDX-License-Identifier: MIT
#include "generators/merge/merge_simt_stages.h"
#include "generators/math/bits.h"
#include "generators/math/exp2.h"
#include <numbers>

namespace attune {
using namespace Halide;

namespace {

// Infinities and NaN are recognised by their bits, as in merge_stages.cpp, which says why.
Expr minus_infinity() { return Internal::make_const(UInt(32), 0xff800000); }
Expr is_empty(const Expr &lse) { return bits_of(lse) == minus_infinity(); }

struct RowOfParts {
    const MergeSimtStages &s;
    MergeSimtRow &row;

    Expr lse_of(int n) const { return row.part_lse[static_cast<std::size_t>(n)](s.i, s.h, s.b); }
    Expr largest_of(int n) const { return row.largest[static_cast<std::size_t>(n)](s.i, s.h, s.b); }
    Expr largest() const { return largest_of(merged_on_device - 1); }
    Expr weight_of(int n) const { return row.weight[static_cast<std::size_t>(n)](s.i, s.h, s.b); }
    Expr share_of(int n) const { return row.share[static_cast<std::size_t>(n)](s.i, s.h, s.b); }

    Expr parts_with_keys() const {
        Expr count = 0;
        for (int n = 0; n < merged_on_device; n++) count += select(is_empty(lse_of(n)), 0, 1);
        return count;
    }
    Expr sum_of_exp() const {
        Expr sum = weight_of(0);
        for (int n = 1; n < merged_on_device; n++) sum = sum + weight_of(n);
        return strict_float(sum);
    }
    // 1 of the first part that has the largest lse, so that infinities keep their meaning.
    Expr made_weight(int n) const {
        Expr is_largest = bits_of(lse_of(n)) == bits_of(largest());
        for (int before = 0; before < n; before++) is_largest = is_largest && bits_of(lse_of(before)) != bits_of(largest());
        const Expr smaller = exp2_nonpositive(lse_of(n) - largest(), float(std::numbers::log2e));
        return strict_float(select(is_empty(lse_of(n)), 0.0f, is_largest, 1.0f, smaller));
    }

    void define(const MergeSimtInputs &in, const std::string &suffix) const {
        for (int n = 0; n < merged_on_device; n++) {
            const auto named = [&](const char *name) { return Func(name + std::to_string(n) + suffix); };
            const auto at = static_cast<std::size_t>(n);
            row.part_lse[at] = named("part_lse"), row.largest[at] = named("largest");
            row.part_lse[at](s.i, s.h, s.b) =
                reinterpret<float>(select(in.count > n, bits_of(in.lse[at](s.i, s.h, s.b)), minus_infinity()));
            // A comparison with a NaN is false.
            row.largest[at](s.i, s.h, s.b) = n == 0
                                                 ? lse_of(0)
                                                 : reinterpret<float>(select(strict_float(largest_of(n - 1) >= lse_of(n)),
                                                                             bits_of(largest_of(n - 1)), bits_of(lse_of(n))));
        }
        for (int n = 0; n < merged_on_device; n++) {
            Func &weight = row.weight[static_cast<std::size_t>(n)];
            weight = Func("weight" + std::to_string(n) + suffix);
            weight(s.i, s.h, s.b) = made_weight(n);
        }
        for (int n = 0; n < merged_on_device; n++) {
            Func &share = row.share[static_cast<std::size_t>(n)];
            share = Func("share" + std::to_string(n) + suffix);
            // The only part with keys stays as it is.
            share(s.i, s.h, s.b) = strict_float(select(parts_with_keys() <= 1, 1.0f, weight_of(n) / sum_of_exp()));
        }
    }
};

}  // namespace

std::vector<Func> MergeSimtRow::all() const {
    std::vector<Func> funcs;
    for (const auto &of : {part_lse, largest, weight, share}) funcs.insert(funcs.end(), of.begin(), of.end());
    return funcs;
}

MergeSimtStages merge_simt_stages(const MergeSimtInputs &in, const std::function<Expr(Expr)> &stored) {
    MergeSimtStages s;
    const Var d = s.d, i = s.i, h = s.h, b = s.b;
    const RowOfParts of_out{s, s.of_out}, of_lse{s, s.of_lse};
    of_out.define(in, "_of_out"), of_lse.define(in, "_of_lse");

    Expr sum;
    for (int n = 0; n < merged_on_device; n++) {
        // The row of a part without keys may hold any values.
        const Expr part = select(is_empty(of_out.lse_of(n)), 0.0f, of_out.share_of(n) * in.out[std::size_t(n)](d, i, h, b));
        sum = n == 0 ? part : sum + part;
    }
    s.out = Func("out_stage"), s.lse = Func("lse_stage");
    s.out(d, i, h, b) = stored(strict_float(sum));

    Expr last = bits_of(of_lse.lse_of(0));  // of the parts with keys
    for (int n = 1; n < merged_on_device; n++) last = select(is_empty(of_lse.lse_of(n)), last, bits_of(of_lse.lse_of(n)));
    const Expr total = of_lse.sum_of_exp();
    // log() of a NaN may be a number.
    const Expr of_all = select(is_nan(total), bits_of(total), bits_of(strict_float(of_lse.largest() + log(total))));
    s.lse(i, h, b) = reinterpret<float>(select(of_lse.parts_with_keys() <= 1, last, of_all));
    return s;
}

}  // namespace attune
