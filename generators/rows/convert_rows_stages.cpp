// SPDX-License-Identifier: MIT
#include "generators/rows/convert_rows_stages.h"
#include "generators/math/narrowed.h"

namespace attune {
using namespace Halide;

Func convert_rows_stages(const ConvertRowsInputs &in, Type to, bool to_kernel) {
    const Var d("d"), i("i"), r("r"), h("h");
    const Expr block = d / 32 * 32, at = d % 32;
    const Expr other = block + (to_kernel ? at % 16 * 2 + at / 16 : at % 2 * 16 + at / 2);
    const Expr source = select(in.by_nibbles, other, d);
    Func out("converted");
    out(d, i, r, h) = narrowed(to, strict_float(cast<float>(in.x(source, i, r, h)) * in.factor(to_kernel ? source : d, h)));
    return out;
}

}  // namespace attune
