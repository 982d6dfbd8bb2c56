// SPDX-License-Identifier: MIT
// Attention over files: what `run sdpa`, `run sdpa-backward`, `run additive` and `run mha` share. The score is the command's.
#pragma once
#include "tools/calls/library_call.h"
#include "tools/files/command_files.h"
#include "tools/picture/picture.h"

namespace attune::program {

// The options that need no file.
SdpaOptions options_of(const AttentionArguments &);
Score score_of(const Given &);

class Attention {
public:
    // Where the heads are: in query, key and value, (..., H, S, D), or made by a layer from (..., S, E).
    enum class Heads { given, made };

    // Names the files; the command may add its own before it loads them.
    Attention(const AttentionArguments &, CommandFiles &, Heads);

    // After load(): the options' arrays. run() does it.
    void add_arrays();

    // After load(). `call` is the library's function of these views. The width is that of a row of out; how many heads a
    // layer makes is asked for where it does.
    using Call = std::function<Status(Context &, const View &out, const SdpaOptions &)>;
    void run(std::int64_t out_width, const Call &call, std::int64_t heads = 1);

    Array query, key, value;
    // Folded to what the library takes.
    ConstView query_view() const { return view_of(query, kept_); }
    ConstView key_view() const { return view_of(key, kept_); }
    ConstView value_view() const { return view_of(value, kept_); }

    // Several extents become the batch of the library.
    bool folded() const { return query.rank() > kept_ + 1; }
    // After add_arrays(): another array of the batch, of which `kept` extents are not leading ones.
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
