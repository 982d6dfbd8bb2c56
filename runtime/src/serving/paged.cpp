// SPDX-License-Identifier: MIT
// Attention over pages: one call of attention for each sequence, on rows that its table places.
#include "attune/paged.h"
#include "device/device_call.h"
#include "dispatch/shape_record.h"
#include "serving/listed_rows.h"
#include "serving/paged_call.h"
#include "serving/quantised_rows.h"
#include "serving/weight_sums.h"
#include <algorithm>
#include <cstring>
#include <vector>

namespace attune {
namespace {

// Bytes of the tables of one sequence: a mask (Sq, Sk), and a strip of Sq + Sk - 1 entries a head, of which row i of a bias
// begins one entry before row i - 1.
struct TableBytes {
    std::int64_t mask = 0, strip = 0;
};
TableBytes table_bytes(const PagedOptions &o, const Sequence &s, const SdpaProblem &p) {
    TableBytes bytes;
    if (o.tree_mask.given()) bytes.mask = (s.queries * s.keys + 63) / 64 * 64;
    if (o.distance_bias.given()) bytes.strip = p.query_heads * (s.queries + s.keys - 1) * size_of(p.dtype);
    return bytes;
}

const bool *row_of_tree(const ConstView &tree, const Sequence &s, std::int64_t i) {
    return static_cast<const bool *>(tree.data) + s.number * tree.stride[0] + i * tree.stride[1];
}

// Positions of the new rows: given, or the rows before the new ones and each row's depth in the tree.
std::vector<std::int64_t> positions_of(const PagedOptions &o, const Sequence &s) {
    const ConstView &given = o.positions, &tree = o.tree_mask;
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < s.queries; i++) {
        if (given.given()) {
            const auto *data = static_cast<const std::int32_t *>(given.data);
            positions.push_back(data[s.number * given.stride[0] + i * given.stride[1]]);
            continue;
        }
        const bool *row = row_of_tree(tree, s, i);
        std::int64_t depth = 0;
        for (std::int64_t j = 0; j < i; j++) depth += row[j * tree.stride[2]];
        positions.push_back(s.keys - s.queries + depth);
    }
    return positions;
}

void write_tree_mask(const PagedOptions &o, const Sequence &s, bool *mask) {
    const ConstView &tree = o.tree_mask;
    const std::int64_t older = s.keys - s.queries;
    const std::vector<std::int64_t> positions = positions_of(o, s);
    for (std::int64_t i = 0; i < s.queries; i++, mask += s.keys) {
        const std::int64_t at = positions[static_cast<std::size_t>(i)];
        const auto within = [&](std::int64_t position) {
            return (o.window.left < 0 || position >= at - o.window.left) &&
                   (o.window.right < 0 || position <= at + o.window.right);
        };
        const std::int64_t begin = o.window.left < 0 ? 0 : std::clamp<std::int64_t>(at - o.window.left, 0, older);
        const std::int64_t end = o.window.right < 0 ? older : std::clamp<std::int64_t>(at + o.window.right + 1, begin, older);
        std::memset(mask, 0, static_cast<std::size_t>(s.keys));
        std::memset(mask + begin, 1, static_cast<std::size_t>(end - begin));
        const bool *row = row_of_tree(tree, s, i);
        for (std::int64_t j = 0; j <= i; j++)
            mask[older + j] = row[j * tree.stride[2]] && within(positions[static_cast<std::size_t>(j)]);
    }
}

// Entry x of a head's strip is the bias of a key Sk - 1 - x rows before the last query.
ConstView write_strips(const ConstView &bias, const Sequence &s, char *strips) {
    const std::int64_t length = s.queries + s.keys - 1, heads = bias.extent[0];
    const auto size = static_cast<std::size_t>(size_of(bias.dtype));
    for (std::int64_t h = 0; h < heads; h++)
        for (std::int64_t x = 0; x < length; x++) {
            const std::int64_t r = std::clamp<std::int64_t>(s.keys - 1 - x, 0, bias.extent[1] - 1);
            std::memcpy(strips + static_cast<std::size_t>(h * length + x) * size,
                        static_cast<const char *>(bias.data) +
                            static_cast<std::size_t>(h * bias.stride[0] + r * bias.stride[1]) * size,
                        size);
        }
    return typed_view(strips + static_cast<std::size_t>(s.queries - 1) * size, bias.dtype, {1, heads, s.queries, s.keys},
                      {0, length, -1, 1});
}

// Turns `call`, a copy of p.rows that may have served other sequences, into the call of one, but for its tables.
void select_sequence(const PagedCall &p, const PagedOptions &o, const Sequence &s, SdpaCall &call) {
    select_rows(p, s, call);
    SdpaOptions band;
    band.causal = causal_of(o), band.window = window_of(o);
    set_band(call, band_of(band, s.keys - s.queries, s.queries, s.keys));
    call.sizes = with_band(call.sizes, band.causal, band.window);
}

// Runs the kernels of the values, and those of the sums of weights where they are wanted.
Status run_kernels(Context &context, const PagedOptions &o, const WeightSumKernels &of_sums, const SdpaCall &call,
                   Sequence &s) {
    const Status values =
        s.op_of_rows ? run_quantised(context, call, *s.op_of_rows, s.choice) : run_attention(context, call, s.choice);
    if (!values.ok() || !o.weight_sums.given() || call.sizes.query_heads == 0) return values;
    return add_weight_sums(state_of(context), call, of_sums, part_of(entry_of(o.weight_sums, s.number), 1, 0, s.keys));
}

Status run_sequence(Context &context, const PagedCall &p, const PagedOptions &o, const WeightSumKernels &of_sums, Sequence &s,
                    SdpaCall &call) {
    select_sequence(p, o, s, call);
    std::optional<ScratchBlock> listed;
    if (s.row_list.given())
        if (Status taken = take_listed_rows(state_of(context), p.rows, s.row_list, call, listed); !taken.ok()) return taken;
    const TableBytes bytes = table_bytes(o, s, call.sizes);
    if (bytes.mask + bytes.strip == 0) return run_kernels(context, o, of_sums, call, s);
    const ScratchBlock block(*state_of(context).scratch, static_cast<std::size_t>(bytes.mask + bytes.strip));
    if (!block.data()) return no_memory();
    if (o.tree_mask.given()) {
        auto *mask = static_cast<bool *>(block.data());
        write_tree_mask(o, s, mask);
        call.mask = ConstView(mask, {1, call.sizes.query_heads, s.queries, s.keys}, {0, 0, s.keys, 1});
    }
    if (o.distance_bias.given()) call.bias = write_strips(o.distance_bias, s, static_cast<char *>(block.data()) + bytes.mask);
    return run_kernels(context, o, of_sums, call, s);
}

// Chooses variants that read quantised rows in place, for the sequences that have one: `forced`, or unless another is forced.
Status choose_of_quantised(Context::State &context, const PagedOptions &o, std::string_view forced, PagedCall &p) {
    if (forced.empty() && !forced_variant(context, o.variant, ops::sdpa).name.empty()) return {};
    SdpaCall of_one = p.rows;
    if (o.distance_bias.given()) of_one.bias = o.distance_bias;
    for (Sequence &s : p.sequences) {
        of_one.op = p.rows.op, of_one.sizes = p.rows.sizes;
        of_one.sizes.queries = s.queries, of_one.sizes.keys = s.keys;
        s.op_of_rows = forced.empty() ? op_of_quantised(of_one) : &op_of_type(of_one.key.dtype);
        if (!s.op_of_rows) continue;
        of_one.op = *s.op_of_rows, of_one.sizes = problem_of_quantised(of_one, *s.op_of_rows, forced);
        if (Status chosen = choose_attention(context, of_one, forced, s.choice); !chosen.ok()) return chosen;
    }
    return {};
}

Status choose(Context::State &context, const PagedOptions &o, PagedCall &p) {
    if (!is_quantised(p.rows)) return choose_sequences(context, p, o.variant);
    const VariantRecord *named = find_variant(o.variant);
    const bool of_rows = named && p.rows.key.dtype == p.rows.value.dtype && named->op == op_of_type(p.rows.key.dtype).name;
    if (Status s = choose_sequences(context, p, of_rows ? std::string_view() : o.variant); !s.ok()) return s;
    return choose_of_quantised(context, o, of_rows ? o.variant : std::string_view(), p);
}

// A line for each sequence, as a call of its own, with a share of the time in proportion to its work.
void record_sequences(ShapeRecord &record, const PagedCall &p, const PagedOptions &o, double seconds) {
    SdpaCall call = p.rows;
    for (const Sequence &s : p.sequences) {
        if (p.work == 0) return;
        select_sequence(p, o, s, call);
        ShapeLine line = shape_line("sdpa", call);
        line.exact = false;
        record.add(line, seconds * s.work / p.work);
    }
}

Status run(Context &context, const ConstView &query, const ConstPages &keys, const ConstPages &values, const View &out,
           const PagedOptions &o, PagedCall &p, std::string_view why_here = {}) {
    const CallStart start = start_of_call();
    Context::State &state = state_of(context);
    if (Status s = check_paged(state, query, keys, values, out, o, p); !s.ok()) return s;
    if (Status s = choose(state, o, p); !s.ok()) return s;
    WeightSumKernels of_sums;
    if (o.weight_sums.given()) {
        if (Status s = choose_weight_sums(state, o, p, of_sums); !s.ok()) return s;
        fill_zeros(as_rank4(o.weight_sums, true));
    }
    const auto run_one = [&](Sequence &s, SdpaCall &call, int) { return run_sequence(context, p, o, of_sums, s, call); };
    if (Status s = run_sequences(state, p, p.rows, run_one); !s.ok()) return s;
    Choice of_most_work{nullptr, "no queries"};
    if (!p.sequences.empty()) of_most_work = p.sequences[0].choice.values;
    if (!why_here.empty()) of_most_work.reason = why_here;
    record_call(state, of_most_work, "paged", start, [&] {
        return "sequences " + text(p.batch()) + " pages of " + text(p.keys.page) + " " + sizes_text(p.rows.sizes);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (state.shapes) record_sequences(*state.shapes, p, o, seconds);
    return {};
}

Status run_on_device(Context &context, const ConstView &query, const ConstPages &keys, const ConstPages &values,
                     const View &out, const PagedOptions &o, PagedCall &p) {
    if (p.query_ends.given() && p.query_ends.place == Place::device)
        return unsupported("cu_seqlens_q", "is on a device; pages there take it on the host");
    std::string instead;
    if (Status s = find_device(state_of(context), "query", instead); !s.ok()) return s;
    if (instead.empty()) return paged_on_device(context, query, keys, values, out, o, p);
    p.block_table = as_host(p.block_table), p.lens = as_host(p.lens);
    return run(context, as_host(query), as_host(keys), as_host(values), as_host(out), as_host(o), p, instead);
}

}  // namespace

Status paged_attention(Context &context, const ConstView &query, const ConstPages &key_pages, const ConstPages &value_pages,
                       const ConstView &cu_seqlens_q, const ConstView &block_table, const ConstView &lens, const View &out,
                       const PagedOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstPages &k, const ConstPages &v,
                          const ConstView &query_ends, const ConstView &table, const ConstView &held, const View &o,
                          const PagedOptions &given) {
        PagedCall call;
        call.query_ends = query_ends, call.block_table = table, call.lens = held;
        if (q.place == Place::device) return run_on_device(context, q, k, v, o, given, call);
        return run(context, q, k, v, o, given, call);
    };
    return answer(context, body, query, key_pages, value_pages, cu_seqlens_q, block_table, lens, out, options);
}

}  // namespace attune
