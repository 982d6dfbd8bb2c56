// SPDX-License-Identifier: MIT
// attune run masked-softmax, linear, batch-dot and dropout-mask: the parts of attention.
#include "tools/calls/library_call.h"
#include "tools/error.h"
#include "tools/files/command_files.h"
#include "tools/picture/picture.h"
#include "tools/text.h"

namespace attune::program {
namespace {

Shape parse_shape(const std::string &text) {
    Shape shape;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        const std::optional<std::int64_t> extent = integer_in(std::string_view(text).substr(at, end - at));
        if (!extent || *extent < 0)
            throw InputError("--shape", "'" + text + "' is not B,Hq,Sq,Sk or B,Sq,Sk, whole numbers from 0");
        shape.push_back(*extent);
        at = end + 1;
    }
    if (shape.size() != 3 && shape.size() != 4)
        throw InputError("--shape", "'" + text + "' has " + std::to_string(shape.size()) + " extents, expected 3 or 4");
    return shape;
}

// A shape with another last extent.
Shape with_last(Shape shape, std::int64_t last) {
    shape.back() = last;
    return shape;
}

}  // namespace

void run_masked_softmax(const MaskedSoftmaxArguments &given) {
    MaskedSoftmaxOptions options;
    options.fill = fill_of(given.fill);
    options.variant = variant_of(given.call);
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    Picture picture(given.picture, files);
    Array scores, lens;
    files.input("--scores", given.scores, scores, {2, any_rank, "(B, H, Sq, Sk), (B, Sq, Sk) or (B, Sk)"});
    files.input("--valid-lens", given.valid_lens, lens, {1, any_rank, "(B,) or (B, Sq)"}, Role::integers);
    files.output("--out", given.out);
    files.output("--heatmap", given.picture.file);
    files.load();

    const int leading_rank = std::max(1, scores.rank() - 3);
    if (leading_rank > 1 && lens.rank() > 0)
        check_leading("--valid-lens", lens, {scores.shape.begin(), scores.shape.begin() + leading_rank}, "--scores");
    options.valid_lens = per_batch_view(lens, leading_rank);
    Context context(resources);
    check(context.status());
    if (picture.wanted()) picture.prepare(scores.shape, scores.rank() > 3);
    Array out = output_array("--out", scores.type, scores.shape);
    check(masked_softmax(context, view_of(scores), output_view(out), options));

    files.write("--out", out);
    const std::int64_t keys = scores.shape.back(), queries = scores.shape[scores.shape.size() - 2];
    if (picture.wanted())
        picture.draw(out, [&](std::int64_t b, std::int64_t i) -> std::int64_t {
            // With MaskFill::seed, a row without keys has weights everywhere.
            if (lens.rank() == 0 || options.fill == MaskFill::seed) return keys;
            // The rows of (B, Sk) are the batch.
            if (scores.rank() == 2) return lens.as<std::int32_t>()[i];
            return lens.as<std::int32_t>()[lens.rank() > leading_rank ? b * queries + i : b];
        });
    files.commit();
}

void run_linear(const LinearArguments &given) {
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    Array x, weight, bias;
    files.input("--x", given.x, x, {1, any_rank, "(..., K)"});
    files.input("--weight", given.weight, weight, {2, 2, "(N, K)"});
    files.input("--bias", given.bias, bias, {1, 1, "(N,)"});
    files.output("--out", given.out);
    files.load();
    Context context(resources);
    check(context.status());
    Array out = output_array("--out", x.type, with_last(x.shape, weight.shape[0]));
    Array packed;
    if (given.packed) {
        const View from = output_view(weight);
        const auto [panels, depth, width] = packed_weight_extents(from.dtype, from.extent[0], from.extent[1]);
        packed = output_array("--weight", weight.type, {panels, depth, width});
        check(pack_linear_weight(context, from, output_view(packed)));
    }
    const ConstView used = view_of(given.packed ? packed : weight);
    check(linear(context, view_of(x), used, view_of(bias), output_view(out), {.variant = variant_of(given.call)}));
    files.write("--out", out);
    files.commit();
}

void run_batch_dot(const BatchDotArguments &given) {
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    Array a, x;
    files.input("--a", given.a, a, {2, any_rank, "(..., n, m)"});
    files.input("--x", given.x, x, {2, any_rank, "(..., m, p)"});
    files.output("--out", given.out);
    files.load();
    if (std::max(a.rank(), x.rank()) > max_rank) {
        check_leading("--x", x, {a.shape.begin(), a.shape.end() - 2}, "--a");
        if (x.rank() != a.rank())
            throw InputError("--x", "has shape " + text_of(x.shape) + ", expected as many extents as --a has");
    }
    Context context(resources);
    check(context.status());
    Array out = output_array("--out", a.type, with_last(a.shape, x.shape.back()));
    check(batch_dot(context, view_of(a), view_of(x), output_view(out), {.variant = variant_of(given.call)}));
    files.write("--out", out);
    files.commit();
}

void run_dropout_mask(const DropoutMaskArguments &given) {
    const Shape shape = parse_shape(given.shape);
    const Dropout dropout = dropout_of(given.dropout);
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    files.output("--out", given.out);
    files.load();
    Context context(resources);
    check(context.status());
    Array mask = output_array("--out", ElementType::boolean, shape);
    check(dropout_mask(context, dropout, output_view(mask)));
    files.write("--out", mask);
    files.commit();
}

}  // namespace attune::program
