// SPDX-License-Identifier: MIT
// All public headers, as C++17 and without a warning.
#include <attune/attune.h>
#include <attune/detail/user_attention.h>
static_assert(__cplusplus == 201703L, "attune::attune has changed the standard of a project");

const char *normalise(const float *scores, float *out, int rows, int columns) {
    static attune::Context context;
    const attune::Status status = attune::masked_softmax(context, {scores, {rows, columns}}, {out, {rows, columns}});
    static std::string message;
    message = status.message();
    return message.c_str();
}

const char *refused(const double *scores, double *out) {
    static attune::Context context;
    static std::string message;
    message = attune::masked_softmax(context, {scores, {1, 1}}, {out, {1, 1}}).message();
    return message.c_str();
}

float back(float x) { return attune::to_float(attune::to_bfloat16(x)); }
