// SPDX-License-Identifier: MIT
#include "generators/rows/row_stages.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

Expr RowSteps::channel_place(const Expr &d, int group) const {
    return most_channels == 0 ? d : unsafe_promise_clamped(d, 0, most_channels / group - 1);
}
Expr RowSteps::pass_place(const Expr &s) const { return most_channels == 0 ? s : s % 2; }

RowWeight row_weight(const RowSteps &steps, const RowVars &v, Type sums, Expr channels, Expr heads) {
    RowWeight w;
    w.weight = Func("norm_weight_stage");
    if (steps.has_stand_ins) {
        const Expr given =
            select(steps.weight_is_f32, cast(sums, steps.weight_f32(v.d, v.h)), cast(sums, steps.weight(v.d, v.h)));
        w.weight(v.d, v.h) = select(steps.has_norm, given, make_const(sums, 1));
        return w;
    }
    w.weight(v.d, v.h) = make_const(sums, 1);
    RDom f32(0, channels, 0, heads, "weight_f32"), same(0, channels, 0, heads, "weight");
    f32.where(steps.has_norm && steps.weight_is_f32);
    w.weight(f32.x, f32.y) = cast(sums, steps.weight_f32(f32.x, f32.y));
    same.where(steps.has_norm && !steps.weight_is_f32);
    w.weight(same.x, same.y) = cast(sums, steps.weight(same.x, same.y));
    w.channel_f32 = f32.x, w.channel = same.x;
    return w;
}

Halves by_halves(const Func &f, const std::vector<Var> &others, const std::function<Expr(Expr, Expr)> &combine) {
    Halves all;
    const Var e("e");
    const auto at = [&](const Func &of, const Expr &place) {
        std::vector<Expr> args{place};
        args.insert(args.end(), others.begin(), others.end());
        return Expr(of(args));
    };
    Func from = f;
    for (int half = RowSum::places / 2; half > 1; half /= 2) {
        Func of_halves(f.name() + std::to_string(half));
        std::vector<Var> args{e};
        args.insert(args.end(), others.begin(), others.end());
        of_halves(args) = combine(at(from, e), at(from, e + half));
        all.halves.push_back(of_halves);
        from = of_halves;
    }
    all.result = combine(at(from, 0), at(from, 1));
    return all;
}

RowSum row_sum(const std::string &name, const RowVars &v, Type sums, Expr channels, Expr wanted,
               const std::function<Expr(Expr)> &element) {
    RowSum r;
    const Var e = v.e, t = v.t, h = v.h, b = v.b;
    RDom block(0, select(wanted, (channels + r.places - 1) / r.places, 0), name + "_block");
    const Expr d = block * r.places + e, zero = make_const(sums, 0);
    r.of_places = Func(name);
    r.of_places(e, t, h, b) = zero;
    r.of_places(e, t, h, b) =
        strict_float(r.of_places(e, t, h, b) + select(likely(d) < channels, element(min(likely(d), channels - 1)), zero));
    r.block = block;
    const Halves halves = by_halves(r.of_places, {t, h, b}, [](Expr x, Expr y) { return strict_float(x + y); });
    r.halves = halves.halves, r.sum = halves.result;
    return r;
}

RowNorm row_norm(const RowSteps &steps, const RowVars &v, const Func &x, Type sums, Expr channels, const std::string &name) {
    RowNorm n;
    n.squares = row_sum(name, v, sums, channels, steps.has_norm, [&](Expr d) {
        const Expr element = cast(sums, x(d, v.t, v.h, v.b));
        return strict_float(element * element);
    });
    const Expr one = make_const(sums, 1), mean = strict_float(n.squares.sum / cast(sums, channels));
    n.factor = Func(name + "_factor");
    n.factor(v.t, v.h, v.b) = select(steps.has_norm, strict_float(one / sqrt(mean + cast(sums, steps.eps))), one);
    return n;
}

RopeLoops rotate_pairs(const RowSteps &steps, Func rotated, const RowVars &v, Expr channels,
                       const std::function<std::vector<Expr>(Expr)> &place, const std::function<Expr(Expr)> &source) {
    const Type sums = rotated.type();
    const Expr first = steps.first_rotated, end = first + 2 * (steps.halves + steps.neighbours);
    RDom before(0, first, "before"), after(0, channels - end, "after");
    rotated(place(before)) = source(before);
    rotated(place(end + after)) = source(end + after);

    const Expr position = unsafe_promise_clamped(steps.positions(v.t, v.b), 0, steps.table_positions - 1);
    // Channel number n, 0 or 1, of pair k, whose channels are these.
    const auto turned = [&](const Expr &k, const Expr &n, const Expr &even, const Expr &odd) {
        const Expr cosine = cast(sums, steps.cos(k, position)), sine = steps.sign * cast(sums, steps.sin(k, position));
        const Expr x = source(even), y = source(odd);
        return select(n == 0, strict_float(x * cosine - y * sine), strict_float(y * cosine + x * sine));
    };
    RDom half(0, 2, 0, steps.halves, "half_pair"), near(0, 2, 0, steps.neighbours, "near_pair");
    rotated(place(first + half.x * steps.halves + half.y)) =
        turned(half.y, half.x, first + half.y, first + steps.halves + half.y);
    rotated(place(first + 2 * near.y + near.x)) = turned(near.y, near.x, first + 2 * near.y, first + 2 * near.y + 1);
    return {before, after, half.y, half.x, near.y, near.x};
}

ButterflyLoops mix_blocks(const RowSteps &steps, Func mixed, const RowVars &v, Expr channels) {
    const Expr half = steps.half_block, blocks = channels / (2 * half);
    RDom r(0, 2, 0, half, 0, blocks, 0, steps.butterflies, "butterfly");
    const auto at = [&](const Expr &d, const Expr &pass) {
        return mixed(steps.channel_place(d), steps.pass_place(pass), v.t, v.h, v.b);
    };
    const Expr even = at(r.z * 2 * half + 2 * r.y, r.w), odd = at(r.z * 2 * half + 2 * r.y + 1, r.w);
    at(r.z * 2 * half + r.x * half + r.y, r.w + 1) = select(r.x == 0, strict_float(even + odd), strict_float(even - odd));
    return {r.y, r.x, r.z, r.w, half};
}

Expr after_passes(const RowSteps &steps, Func mixed, const RowVars &v, Expr d) {
    const Expr channel = mixed(steps.channel_place(d), steps.pass_place(steps.butterflies), v.t, v.h, v.b);
    return strict_float(channel * cast(mixed.type(), steps.hadamard_factor));
}

}  // namespace attune
