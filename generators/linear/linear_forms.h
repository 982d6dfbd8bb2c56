// SPDX-License-Identifier: MIT
// A linear layer's form: one of the structs of stages.
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
