// SPDX-License-Identifier: MIT
#include "attention/dropout_threshold.h"
#include "attention/sdpa_call.h"
#include "attune/dropout.h"
#include "dispatch/op_call.h"
#include "dispatch/shape_record.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "tensors/checks.h"
#include <algorithm>
#include <array>
#include <cstring>

namespace attune {
namespace {

// Random words that a core makes in about the time in which another core wakes.
constexpr std::int64_t words_per_thread = 1 << 14;

Status check(const Dropout &dropout, const View &mask) {
    if (Status s = check_dropout(dropout); !s.ok()) return s;
    if (mask.rank != 3 && mask.rank != 4)
        return invalid("mask", "rank must be 4 (B, Hq, Sq, Sk) or 3 (B, Sq, Sk), got " + text(mask.rank));
    if (mask.dtype != DType::boolean) return invalid("mask", std::string("type must be bool, got ") + name_of(mask.dtype));
    if (Status s = check_memory("mask", mask); !s.ok()) return s;
    if (Status s = check_counted_heads(dropout, mask.rank == 4 ? mask.extent[1] : 1); !s.ok()) return s;
    const std::array<NamedView, 1> outputs{{{"mask", mask}}};
    return check_overlaps({}, outputs);
}

// Writes the mask of probability 0 or 1, where no random word is needed.
void fill(const View &m, bool kept) {
    for (std::int64_t b = 0; b < m.extent[0]; b++)
        for (std::int64_t h = 0; h < m.extent[1]; h++)
            for (std::int64_t i = 0; i < m.extent[2]; i++) {
                char *row = static_cast<char *>(m.data) + b * m.stride[0] + h * m.stride[1] + i * m.stride[2];
                for (std::int64_t j = 0; j < m.extent[3]; j++) std::memset(row + j * m.stride[3], kept, 1);
            }
}

Status run(Context::State &context, const Dropout &dropout, const View &m, const VariantRecord &variant,
           std::int64_t elements) {
    HalideBuffer out(m);
    const DropoutMaskArguments arguments{.seed_low = static_cast<std::uint32_t>(dropout.seed),
                                         .seed_high = static_cast<std::uint32_t>(dropout.seed >> 32),
                                         .offset = dropout.offset,
                                         .first_query = dropout.first_query,
                                         .first_key = dropout.first_key,
                                         .first_head = dropout.first_head,
                                         .heads = counted_heads(dropout, m.extent[1]),
                                         .threshold = static_cast<std::uint32_t>(dropout_threshold(dropout.probability)),
                                         .out = out.get()};
    const int threads = static_cast<int>(std::clamp<std::int64_t>(elements / words_per_thread, 1, context.threads));
    return call_kernel(context, variant.kernel, arguments, threads);
}

Status write_mask(Context::State &context, const Dropout &dropout, const View &mask) {
    const CallStart start = start_of_call();
    if (Status s = check(dropout, mask); !s.ok()) return s;
    const View m = as_rank4(mask, true);
    static constexpr Candidate candidates[] = {{Schedule::rows, "", "always"}, {Schedule::root, "", "nothing else is built"}};
    Choice choice;
    const VariantNeeds needs{.op = ops::dropout_mask, .dtype = DType::boolean};
    if (Status s = choose_variant(needs, candidates, forced_variant(context, {}, needs.op), choice); !s.ok()) return s;

    const std::int64_t elements = elements_of(m);
    const std::uint64_t threshold = dropout_threshold(dropout.probability);
    if (elements == 0) {
        choice = {nullptr, "no weights"};
    } else if (threshold == 0 || threshold >> 32) {
        fill(m, threshold == 0);
        choice = {nullptr, threshold == 0 ? "probability 0" : "probability 1"};
    } else if (Status s = run(context, dropout, m, *choice.variant, elements); !s.ok()) {
        return s;
    }
    record_call(context, choice, needs.op.name, start, [&] {
        return "b " + text(m.extent[0]) + " h " + text(m.extent[1]) + " q " + text(m.extent[2]) + " k " + text(m.extent[3]);
    });
    record_shape(context, start, [&] {
        return ShapeLine{.op = needs.op.name, .b = m.extent[0], .h = m.extent[1], .q = m.extent[2], .k = m.extent[3]};
    });
    return {};
}

}  // namespace

Status dropout_mask(Context &context, const Dropout &dropout, const View &mask) noexcept {
    const auto body = [&](Context::State &state, const View &m) { return write_mask(state, dropout, m); };
    return answer(context, body, mask);
}

}  // namespace attune
