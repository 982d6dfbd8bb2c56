// SPDX-License-Identifier: MIT
// Attention over files: the common part of `run sdpa`, `run sdpa-backward`, `run additive` and `run mha`.
#pragma once
#include "tools/calls/library_call.h"
#include "tools/files/command_files.h"
#include "tools/picture/picture.h"

namespace attune::program {

// Options that need no file.
SdpaOptions options_of(const AttentionArguments &);
Score score_of(const Given &);

class Attention {
public:
    // Place of the heads: in query, key and value, (..., H, S, D), or made by a layer from (..., S, E).
    enum class Heads { given, made };

    // Names the files; the command may add its own before it loads them.
    Attention(const AttentionArguments &, CommandFiles &, Heads);

    // Adds the arrays of the options, after load(). run() calls it.
    void add_arrays();

    // Calls the library, after load(), with views of the results. out_width: the extent of a row of out; heads: the number that
    // a layer makes.
    using Call = std::function<Status(Context &, const View &out, const SdpaOptions &)>;
    void run(std::int64_t out_width, const Call &call, std::int64_t heads = 1);

    Array query, key, value;
    // Views folded to the rank that the library takes.
    ConstView query_view() const { return view_of(query, kept_); }
    ConstView key_view() const { return view_of(key, kept_); }
    ConstView value_view() const { return view_of(value, kept_); }

    // Several extents become the batch of the library.
    bool folded() const { return query.rank() > kept_ + 1; }
    // Checks another array of the batch, whose last `kept` extents are not leading ones; after add_arrays().
    void check_batch(const char *argument, const Array &, int kept) const;

    SdpaOptions options;
    Array bias, alibi, sinks;
    Shape bias_shape;  // as in its file

private:
    void parse();
    std::int64_t length(std::int64_t b, std::int64_t i) const;

    const AttentionArguments &given_;
    CommandFiles &files_;
    const Heads heads_;
    const int kept_;  // extents of query that are not its batch
    ContextOptions context_options_;
    Picture picture_;
    Array mask_, valid_lens_, cache_lens_, offsets_;
};

}  // namespace attune::program
