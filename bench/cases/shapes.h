// SPDX-License-Identifier: MIT
// Timed shapes, read from shapes/*.csv, and the least cost of each.
#pragma once
#include "attune/sdpa.h"
#include "attune/variants.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Options of attention, named as in the column `options`: "mask+bias".
struct Options {
    bool mask = false, bias = false;  // (Sq, Sk), the same for every head
    bool alibi = false, softcap = false, sinks = false, dropout = false, weights = false;

    bool scored() const { return mask || bias || alibi || softcap || sinks; }
};

// A shape: b batch, h query heads, kv key heads, q queries, k keys, d and dv widths. Their meaning for other ops:
//   sdpa_backward   gradients by query, key and value, and by the bias where `options` has one
//   cosine_backward, gaussian_backward    as sdpa_backward, for these scores
//   additive_backward as additive, without the gradient by the weights of its score
//   additive        d is the width that tanh is summed over; no projections
//   general         d is the width of query and key
//   linear          x (b, q, d), weight (dv, d), with bias; linear_packed: the weight packed beforehand
//   linear_backward gradients of linear by x, weight and bias
//   batch_dot       (b, h, q, k) times (b, h, k, dv)
//   masked_softmax, dropout_mask    (b, h, q, k)
//   variable_length b is 1; `length` lists sequences by their keys, k in all; q is k, or one query for each sequence
//   multi_head      d is the size of a head; every width of the layer is h * d; with biases
struct Shape {
    std::string set, name;  // file and row: "llm_prefill", "1024x64"
    std::string op = "sdpa";
    attune::DType dtype = attune::DType::f32;
    std::int64_t b = 1, h = 1, kv = 1, q = 1, k = 1, d = 1, dv = 1;
    bool causal = false;  // bottom right
    attune::Window window;
    std::vector<std::int32_t> lengths;  // of each batch entry, or each sequence; empty: all keys
    Options options;
    bool quick = false;
    std::int64_t calls = 0;  // in a program that recorded its shapes (ATTUNE_RECORD_SHAPES)
    double seconds = 0;      // of all these calls

    // Whether the op is attention by a score: sdpa, cosine, gaussian, general or additive, or its gradients.
    bool attention() const;
    bool backward() const;  // gradients of attention
    bool packed() const { return op == "variable_length"; }
    bool layer() const { return op == "linear" || op == "linear_packed" || op == "linear_backward"; }
    // The kind of kernels that its options need at least; "" of no attention.
    const char *kind() const;
    // Whether the variant can be forced on this shape, and is of the simplest kind that knows its options.
    bool takes(const attune::VariantInfo &, const std::vector<attune::VariantInfo> &all) const;

    // Keys [first, second) that query i of batch entry e keeps.
    std::pair<std::int64_t, std::int64_t> keys_of(std::int64_t e, std::int64_t i) const;
    // (query, key) pairs that the structural masks keep, over batch and heads.
    double pairs() const;
    // Work of a call, in `unit`: "FLOP" of its products over those pairs, "tanh" of additive scores, "B" written and read.
    const char *unit() const;
    double work() const;
    // Work without skipped pairs, as of root, in operations that take about as long as a FLOP of root's.
    double work_unmasked() const;
    // Bytes of inputs and outputs, once; keys and values where any query keeps them.
    double bytes() const;
    // Whether the shape is one query over keys and values larger than a core's own cache, and so bound by reading them.
    bool decode() const { return op == "sdpa" && q == 1 && kv * k * (d + dv) * attune::size_of(dtype) >= (1 << 20); }
    // "b:1/h:8/kv:8/q:1024/k:1024/d:64/causal:0", then dv, window, len and options where given; only sizes that the op has.
    std::string label() const;
};

// Columns of a shape as text, by name, as in a file but without its name and quick.
using Columns = std::vector<std::pair<std::string, std::string>>;
Columns columns_of(const Shape &);
// Reads columns; returns their fault, empty if there is none. A column that is left out keeps its value.
std::string read_columns(const Columns &, Shape &);

// Rows of every *.csv of the folder, or of a file, whose "<set>/<name>" or "<set>" matches the glob, in order of the files'
// names and rows. The first line that is no comment names the columns, in any order, and may come again; a column that is left
// out has the value above. Rows that differ in calls and seconds alone are one, with the sums. A bad file gives an empty
// result, and `error` says where.
std::vector<Shape> read_shapes(const std::string &folder, const std::string &glob, std::string &error);

}  // namespace bench
