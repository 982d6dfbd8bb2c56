// SPDX-License-Identifier: MIT
#include "generators/rows/dequantise_rows_stages.h"
#include "generators/attention/forward/placed_rows.h"
#include "generators/math/dequantised.h"
#include "generators/math/narrowed.h"

namespace attune {
using namespace Halide;

DequantiseRowsStages dequantise_rows_stages(const DequantiseRowsInputs &in, Type stored) {
    DequantiseRowsStages s;
    const Var d = s.d, j = s.j, h = s.h;
    const Expr row = placed_row(j, in.row_shift(j / keys_of_run), in.rows);
    s.out = Func("rows");
    s.out(d, j, h) = undef(stored);

    const RDom channel(0, in.channels_of_int8, "channel");
    const Expr of_row = select(in.scale_is_f16, cast<float>(in.scale_f16(0, row, h)), in.scale_f32(0, row, h));
    const Expr scale = select(in.has_static_scale, in.static_scale(channel, h), of_row);
    s.out(channel, j, h) = narrowed(stored, dequantised_int8(in.bytes(channel, row, h), scale));
    s.channel = channel.x;

    const Expr bytes_of_group = in.channels_of_group / 2;
    const RDom nibble(0, 2, 0, bytes_of_group, 0, in.groups_of_int4, "nibble");
    const Expr group = nibble.z, byte = group * bytes_of_group + nibble.y;
    const Expr x = dequantised_int4(in.bytes(byte, row, h), nibble.x, cast<float>(in.minimum_f16(group, row, h)),
                                    cast<float>(in.scale_f16(group, row, h)));
    s.out(byte * 2 + nibble.x, j, h) = narrowed(stored, x);
    s.odd = nibble.x, s.byte = nibble.y, s.group = nibble.z;
    return s;
}

}  // namespace attune
