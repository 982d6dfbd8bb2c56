// SPDX-License-Identifier: MIT
// Checks of products with a matrix, for linear() and for layers that call it.
#pragma once
#include "attune/linear.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"

namespace attune {

// Rows of a product: f32, f64, bf16 or f16, and the type of `other` where that is given; host memory, a dense last dimension of
// at least 1.
// The rank has been checked.
Status check_rows(std::string_view name, const ConstView &, std::string_view other = {}, DType type_of_other = DType::f32);

// A weight (N, K) for the rows of x, and its bias (N), which may be left out.
Status check_weight(std::string_view name, const ConstView &weight, std::string_view x_name, const ConstView &x);
Status check_bias(std::string_view name, const ConstView &bias, std::string_view weight_name, const ConstView &weight);

// Whether the first `count` extents are those of x, and whether a rank is that of `other`.
Status check_leading(const ConstView &, std::string_view name, const ConstView &x, std::string_view x_name, int count);
Status check_rank(std::string_view name, int given, std::string_view other, int expected);

// The extents are packed_weight_extents().
Status check_packed_extents(std::string_view name, const ConstView &packed, std::int64_t columns, std::int64_t depth);

constexpr int packed_rank = 3;
constexpr std::int64_t packed_columns = packed_weight_extents(DType::f32, 1, 1)[2];  // of a panel
// Whether the panels of a packed weight follow each other in memory; and such a weight as the matrix of all their rows, as
// kernels of full AMX tiles read it.
bool is_one_matrix(const ConstView &packed);
ConstView as_one_matrix(ConstView packed);

// A checked product, every view of rank 4 but the weight and bias of a layer.
struct Product {
    Op op;
    ConstView x, weight, bias;
    View out;
    std::int64_t columns = 0, depth = 0;
};
// Some of its columns; of a packed weight, whole panels.
Product columns_of(const Product &, std::int64_t first, std::int64_t count);

// Columns before `first_columns` are those of choice.variant, the others of choice.of_last.
struct ProductChoice {
    Choice variants;
    std::int64_t first_columns = 0;
};
ProductProblem problem_of(const Product &);
Status choose_for(const Op &, const ProductProblem &, const Forced &, ProductChoice &);
// Every variant that could compute the product in the order of sums of its type, with its predicted time, the quickest first.
std::vector<PredictedVariant> predictions(const Op &, const ProductProblem &);

// A product that has been checked and whose kernels are chosen, by prepare_linear() or prepare_batch_dot(): so functions of
// several kernels refuse all that they do before the first of these runs. run_product() computes it, as often as wanted, and
// records the call.
struct ProductCall {
    Product given, computed;  // one column of many rows is computed as one row
    ProductChoice choice;
};
Status check_linear(const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out, Product &);
Status prepare_linear(const Context::State &, const ConstView &x, const ConstView &weight, const ConstView &bias,
                      const View &out, std::string_view variant, ProductCall &);
// Overlaps are the caller's to check: an operand may stand for scratch memory that the call takes later.
Status prepare_batch_dot(const Context::State &, const ConstView &a, const ConstView &x, const View &out,
                         std::string_view variant, ProductCall &);
Status choose_product(const Context::State &, std::string_view variant, ProductCall &);  // for call.given
std::string product_sizes_text(const Product &);
Status run_product(Context::State &, const ProductCall &, CallStart, std::string_view why_here = {});

// The same of tensors on a device, whose views are marked as the host's and whose places are checked.
struct DeviceProduct {
    Product given;
    Choice choice;
};
Status prepare_linear_on_device(const Context::State &, const ConstView &x, const ConstView &weight, const ConstView &bias,
                                const View &out, std::string_view variant, DeviceProduct &);
Status run_product_on_device(Context::State &, const DeviceProduct &, CallStart);

}  // namespace attune
