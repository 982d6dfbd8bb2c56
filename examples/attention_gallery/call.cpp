// SPDX-License-Identifier: MIT
// Arrays and the tensors of a call.
#include "gallery.h"
#include <cmath>

namespace gallery {

Array::operator attune::View() { return {floats, shape}; }
Array::operator attune::ConstView() const {
    return integers.empty() ? attune::ConstView(floats, shape) : attune::ConstView(integers, shape);
}

Array number(float x) { return {{}, {x}}; }
Array number(std::int32_t x) { return {{}, {}, {x}}; }
Array floats(std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= std::size_t(extent);
    return {std::move(shape), std::vector<float>(count)};
}
Array normal(std::vector<std::int64_t> shape, std::mt19937 &random) {
    Array array = floats(std::move(shape));
    std::normal_distribution<float> distribution;
    for (float &x : array.floats) x = distribution(random);
    return array;
}

Call::Call(attune::Context &c, const Sizes &s, std::vector<Array> captured, std::mt19937 &random)
    : context(c), query(normal({s.batch, s.heads, s.queries, channels}, random)),
      key(normal({s.batch, s.key_heads, s.keys, channels}, random)), value(normal(key.shape, random)), out(floats(query.shape)),
      lse(floats({s.batch, s.heads, s.queries})), grad_out(normal(query.shape, random)), captures(std::move(captured)),
      grad_query(out), grad_key(floats(key.shape)), grad_value(grad_key) {
    for (const Array &a : captures) grad_captures.push_back(a.learned() ? a : Array{});
    // NaN, so that elements that a call fails to write are found.
    for (Array *a : {&out, &lse, &grad_query, &grad_key, &grad_value}) a->floats.assign(a->floats.size(), NAN);
    for (Array &a : grad_captures) a.floats.assign(a.floats.size(), NAN);
}

attune::SdpaForward Call::forward() { return {.out = out, .lse = lse, .grad_out = grad_out}; }
attune::SdpaGradients Call::gradients() { return {.query = grad_query, .key = grad_key, .value = grad_value}; }

}  // namespace gallery
