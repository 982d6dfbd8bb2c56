// SPDX-License-Identifier: MIT
#include "tools/calls/additive_layer.h"
#include "tools/error.h"
#include "tools/text.h"

namespace attune::program {

AdditiveLayer::AdditiveLayer(const AdditiveArguments &given, CommandFiles &files) {
    files.input("--w-query", given.w_query, w_query, {2, 2, "(h, Dq)"});
    files.input("--w-key", given.w_key, w_key, {2, 2, "(h, Dk)"});
    files.input("--b-query", given.b_query, b_query, {1, 1, "(h,)"});
    files.input("--b-key", given.b_key, b_key, {1, 1, "(h,)"});
    files.input("--w-score", given.w_score, w_score, {1, 1, "(h,)"});
    if (!given.b_score) return;
    if (const std::optional<double> number = number_in(*given.b_score))
        b_score_ = *number;
    else if (looks_like_number(*given.b_score))
        throw InputError("--b-score", "'" + *given.b_score + "' is not a number in range");
    else
        files.input("--b-score", given.b_score, b_score_file_, {0, 1, "one number"});
}

AdditiveOptions AdditiveLayer::options() const {
    AdditiveOptions options;
    options.w_query = view_of(w_query), options.w_key = view_of(w_key);
    options.b_query = view_of(b_query), options.b_key = view_of(b_key);
    options.w_score = view_of(w_score), options.b_score = b_score_;
    if (!b_score_file_.data) return options;
    if (b_score_file_.elements() != 1)
        throw InputError("--b-score", "has shape " + text_of(b_score_file_.shape) + ", expected one number");
    options.b_score = float_at(b_score_file_, 0);
    return options;
}

}  // namespace attune::program
