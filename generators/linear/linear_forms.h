// SPDX-License-Identifier: MIT
// The form of a linear layer's sums, one of those that there are.
#pragma once
#include "generators/linear/amx_stages.h"
#include "generators/linear/panel_stages.h"
#include "generators/linear/row_stages.h"
#include <variant>

namespace attune {

using LinearForm =
    std::variant<PanelStages, WidenedPanelStages, Bf16DotPanelStages, Bf16DotEpilogueStages, RowStages, InterleavedRowStages,
                 WidenedRowStages, Bf16DotRowStages, Bf16DotLineStages, AmxStages, AmxWeightStages>;

}  // namespace attune
