// SPDX-License-Identifier: MIT
// ATTUNE_RECORD_SHAPES: the lines that each op's calls write, which the benchmark's reader must turn into the same shapes.
#include "bench/cases/shapes.h"
#include "tests/support/environment.h"
#include "tests/support/refusals.h"
#include "tests/support/sdpa_case.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

class RecordingFile {
public:
    RecordingFile() {
        std::string folder = (std::filesystem::temp_directory_path() / "attune_shapes_XXXXXX").string();
        REQUIRE(mkdtemp(folder.data()));
        folder_ = folder;
    }
    ~RecordingFile() { std::filesystem::remove_all(folder_); }
    std::string name() const { return (folder_ / "shapes.csv").string(); }
    std::vector<std::string> lines() const {
        std::ifstream in(name());
        std::vector<std::string> all;
        for (std::string line; std::getline(in, line);) all.push_back(line);
        return all;
    }
    std::vector<bench::Shape> shapes() const {
        std::string error;
        const auto all = bench::read_shapes(name(), "*", error);
        CHECK(error == "");
        return all;
    }

private:
    std::filesystem::path folder_;
};

// Lines that calls in a Context of their own write, without the columns calls and seconds.
template<typename F> std::vector<std::string> recorded(const F &calls) {
    const RecordingFile file;
    {
        Environment record("ATTUNE_RECORD_SHAPES", file.name());
        attune::Context context({.threads = 2});
        calls(context);
    }
    std::vector<std::string> lines = file.lines();
    if (lines.empty()) return {};
    CHECK(lines[0] == "name,op,dtype,b,h,kv,q,k,d,dv,causal,left,right,length,options,calls,seconds");
    lines.erase(lines.begin());
    CHECK(file.shapes().size() == lines.size());
    for (std::string &line : lines) line.erase(line.rfind(',', line.rfind(',') - 1));
    return lines;
}
using Lines = std::vector<std::string>;

struct Attention {
    std::int64_t b = 2, h = 4, kv = 2, q = 3, k = 7, d = 8, dv = 6;
    std::vector<float> query = std::vector<float>(512, 0.5f), key = query, value = query, out = query, more = query;

    attune::Status run(attune::Context &context, const attune::SdpaOptions &options = {}) {
        return attune::scaled_dot_product_attention(context, {query.data(), {b, h, q, d}}, {key.data(), {b, kv, k, d}},
                                                    {value.data(), {b, kv, k, dv}}, {out.data(), {b, h, q, dv}}, options);
    }
    Lines lines(const attune::SdpaOptions &options) {
        return recorded([&](attune::Context &context) { CHECK(run(context, options).ok()); });
    }
};

}  // namespace

TEST_CASE("recorded shapes: one line for each shape, with its calls and seconds", "[runtime]") {
    const RecordingFile file;
    Attention a, longer{.k = 9};
    for (int turn = 0; turn < 2; turn++) {
        Environment record("ATTUNE_RECORD_SHAPES", file.name());
        attune::Context context;
        CHECK(a.run(context).ok());
        CHECK(longer.run(context).ok());
        CHECK(a.run(context).ok());
        CHECK(!a.run(context, {.causal = attune::Causal::offset}).ok());  // refused, so not recorded
    }
    CHECK(file.lines().size() == 5);  // the columns once, and two lines per Context
    const auto shapes = file.shapes();
    REQUIRE(shapes.size() == 2);
    CHECK(shapes[0].calls + shapes[1].calls == 6);
    for (const bench::Shape &s : shapes) {
        CHECK(s.op == "sdpa");
        CHECK(s.calls == (s.k == 7 ? 4 : 2));
        CHECK(s.seconds > 0);
        CHECK(s.label() == (s.k == 7 ? "b:2/h:4/kv:2/q:3/k:7/d:8/dv:6/causal:0" : "b:2/h:4/kv:2/q:3/k:9/d:8/dv:6/causal:0"));
    }
}

TEST_CASE("recorded shapes: masks and options of attention", "[runtime]") {
    Attention a;
    const std::string sizes = "sdpa,f32,2,4,2,3,7,8,6,";
    using attune::Causal;
    CHECK(a.lines({}) == Lines{"recorded," + sizes + "0,-1,-1,,"});
    CHECK(a.lines({.causal = Causal::bottom_right}) == Lines{"recorded," + sizes + "1,-1,-1,,"});
    CHECK(a.lines({.causal = Causal::top_left}) == Lines{"recorded," + sizes + "0,-1,0,,"});
    CHECK(a.lines({.causal = Causal::offset, .offset = 4}) == Lines{"recorded," + sizes + "1,-1,-1,,"});
    CHECK(a.lines({.causal = Causal::offset, .offset = 2}) == Lines{"recorded," + sizes + "0,-1,2,,"});
    CHECK(a.lines({.causal = Causal::bottom_right, .window = {.left = 2}}) == Lines{"recorded," + sizes + "1,2,-1,,"});
    CHECK(a.lines({.window = {.left = 1, .right = 2}}) == Lines{"recorded," + sizes + "0,1,2,,"});
    CHECK(a.lines({.causal = Causal::offset, .offset = 3, .window = {.left = 1}}) ==
          Lines{"nearest,sdpa,f32,2,4,2,3,6,8,6,1,1,-1,,"});

    const std::vector<std::int32_t> lens{5, 7}, every{5, 4, 6, 7, 7, 7}, old{2, 4};
    CHECK(a.lines({.valid_lens = {lens.data(), {2}}}) == Lines{"recorded," + sizes + "0,-1,-1,5_7,"});
    CHECK(a.lines({.valid_lens = {every.data(), {2, 3}}}) == Lines{"nearest," + sizes + "0,-1,-1,5_7,"});
    CHECK(a.lines({.causal = Causal::offset, .cache_lens = {old.data(), {2}}}) == Lines{"nearest," + sizes + "1,-1,-1,5_7,"});
    Attention decode{.q = 1};
    CHECK(decode.lines({.causal = Causal::offset, .cache_lens = {old.data(), {2}}}) ==
          Lines{"recorded,sdpa,f32,2,4,2,1,7,8,6,0,-1,-1,3_5,"});

    const std::vector<float> bias(21);
    std::vector<float> weights(2 * 4 * 3 * 7);
    CHECK(a.lines({.softcap = 30, .bias = {bias.data(), {3, 7}}, .alibi = true, .dropout = {.probability = 0.5}}) ==
          Lines{"recorded," + sizes + "0,-1,-1,,bias+alibi+softcap+dropout"});
    // The output is computed as the product of the weights and the values.
    CHECK(a.lines({.weights = {weights.data(), {2, 4, 3, 7}}}) ==
          Lines{"recorded,batch_dot,f32,2,2,1,6,7,1,6,0,-1,-1,,", "recorded," + sizes + "0,-1,-1,,weights"});
    CHECK(a.lines({.score = attune::Score::cosine}) == Lines{"recorded,cosine,f32,2,4,2,3,7,8,6,0,-1,-1,,"});
    Attention none{.k = 0};
    CHECK(none.lines({}).empty());
}

TEST_CASE("recorded shapes: ops other than attention, and those within others", "[runtime]") {
    std::vector<float> x(4096, 0.25f), y = x, z = x, w = x;
    CHECK(recorded([&](attune::Context &context) {
              CHECK(attune::linear(context, {x.data(), {2, 3, 8}}, {y.data(), {5, 8}}, {}, {z.data(), {2, 3, 5}}).ok());
              CHECK(attune::batch_dot(context, {x.data(), {2, 3, 8}}, {y.data(), {2, 8, 5}}, {z.data(), {2, 3, 5}}).ok());
          }) == Lines{"recorded,batch_dot,f32,1,2,1,3,8,1,5,0,-1,-1,,", "recorded,linear,f32,1,1,1,6,1,8,5,0,-1,-1,,"});
    const std::vector<std::int32_t> lens{2, 6};
    CHECK(recorded([&](attune::Context &context) {
              CHECK(attune::masked_softmax(context, {x.data(), {2, 3, 7}}, {y.data(), {2, 3, 7}},
                                           {.valid_lens = {lens.data(), {2}}})
                        .ok());
          }) == Lines{"recorded,masked_softmax,f32,2,1,1,3,7,1,1,0,-1,-1,2_6,"});
    CHECK(recorded([&](attune::Context &context) {
              CHECK(attune::additive_attention(context, {x.data(), {2, 3, 8}}, {y.data(), {2, 7, 8}}, {w.data(), {2, 7, 5}},
                                               {z.data(), {2, 3, 5}})
                        .ok());
          }) == Lines{"recorded,additive,f32,2,1,1,3,7,8,5,0,-1,-1,,"});
    const auto layer = [&](const attune::MultiHeadOptions &options) {
        return recorded([&](attune::Context &context) {
            const ConstView weight(w.data(), {8, 8});
            const attune::MultiHeadWeights weights{.query = weight, .key = weight, .value = weight, .out = weight};
            CHECK(attune::multi_head_attention(context, {x.data(), {2, 3, 8}}, {y.data(), {2, 7, 8}}, {y.data(), {2, 7, 8}},
                                               weights, {z.data(), {2, 3, 8}}, options)
                      .ok());
        });
    };
    CHECK(layer({.heads = 2}) ==
          Lines{"recorded,linear,f32,1,1,1,14,1,8,8,0,-1,-1,,", "recorded,linear,f32,1,1,1,6,1,8,8,0,-1,-1,,",
                "recorded,multi_head,f32,2,2,2,3,7,4,4,0,-1,-1,,", "recorded,sdpa,f32,2,2,2,3,7,4,4,0,-1,-1,,"});
    for (const attune::Window window : {attune::Window{0, -1}, attune::Window{-1, 0}}) {
        attune::MultiHeadOptions options{.heads = 2};
        options.attention.window = window;
        const Lines lines = layer(options);
        CHECK(std::count(lines.begin(), lines.end(), "nearest,multi_head,f32,2,2,2,3,7,4,4,0,-1,-1,,") == 1);
    }
}

TEST_CASE("recorded shapes: packed batches", "[runtime]") {
    std::vector<float> x(2048, 0.25f), y = x;
    const auto lines = [&](const std::vector<std::int32_t> &of_queries, const std::vector<std::int32_t> &of_keys,
                           const attune::SdpaOptions &options = {}) {
        return recorded([&](attune::Context &context) {
            const std::int64_t queries = of_queries.back(), keys = of_keys.back(), n = std::int64_t(of_keys.size());
            CHECK(attune::variable_length_attention(context, {x.data(), {queries, 2, 8}}, {x.data(), {keys, 2, 8}},
                                                    {x.data(), {keys, 2, 8}}, {of_queries.data(), {n}}, {of_keys.data(), {n}},
                                                    {y.data(), {queries, 2, 8}}, options)
                      .ok());
        });
    };
    const std::string sizes = "variable_length,f32,1,2,2,";
    CHECK(lines({0, 3, 3, 8}, {0, 3, 3, 8}) == Lines{"recorded," + sizes + "8,8,8,8,0,-1,-1,3_5,"});
    CHECK(lines({0, 1, 8}, {0, 1, 8}, {.causal = attune::Causal::bottom_right}) ==
          Lines{"recorded," + sizes + "8,8,8,8,1,-1,-1,1_7,"});
    CHECK(lines({0, 1, 2}, {0, 9, 13}) == Lines{"recorded," + sizes + "2,13,8,8,0,-1,-1,9_4,"});
    CHECK(lines({0, 2, 3}, {0, 9, 13}) ==
          Lines{"nearest,sdpa,f32,1,2,2,1,4,8,8,0,-1,-1,,", "nearest,sdpa,f32,1,2,2,2,9,8,8,0,-1,-1,,"});
}

TEST_CASE("recorded shapes: gradients of packed batches are calls of their sequences", "[runtime]") {
    std::vector<float> x(2048, 0.25f), y = x;
    const std::vector<std::int32_t> ends = {0, 3, 3, 8};
    const attune::ConstView rows(x.data(), {8, 2, 8}), list(ends.data(), {4});
    const auto lines = recorded([&](attune::Context &context) {
        CHECK(attune::variable_length_attention_backward(context, rows, rows, rows, list, list,
                                                         {rows, {x.data(), {2, 8}}, rows}, {.query = {y.data(), {8, 2, 8}}})
                  .ok());
    });
    CHECK(lines ==
          Lines{"nearest,sdpa_backward,f32,1,2,2,3,3,8,8,0,-1,-1,,", "nearest,sdpa_backward,f32,1,2,2,5,5,8,8,0,-1,-1,,"});
}

TEST_CASE("recorded shapes: gradients", "[runtime]") {
    Attention a;
    std::vector<float> lse(2 * 4 * 3), grad_out = a.out, gq = a.out, gk = a.out, gv = a.out;
    const auto lines = recorded([&](attune::Context &context) {
        CHECK(a.run(context, {.causal = attune::Causal::bottom_right, .lse = {lse.data(), {2, 4, 3}}}).ok());
        const attune::SdpaForward forward{
            .out = {a.out.data(), {2, 4, 3, 6}}, .lse = {lse.data(), {2, 4, 3}}, .grad_out = {grad_out.data(), {2, 4, 3, 6}}};
        CHECK(attune::scaled_dot_product_attention_backward(
                  context, {a.query.data(), {2, 4, 3, 8}}, {a.key.data(), {2, 2, 7, 8}}, {a.value.data(), {2, 2, 7, 6}},
                  forward,
                  {.query = {gq.data(), {2, 4, 3, 8}}, .key = {gk.data(), {2, 2, 7, 8}}, .value = {gv.data(), {2, 2, 7, 6}}},
                  {.causal = attune::Causal::bottom_right})
                  .ok());
    });
    CHECK(lines == Lines{"recorded,sdpa,f32,2,4,2,3,7,8,6,1,-1,-1,,", "recorded,sdpa_backward,f32,2,4,2,3,7,8,6,1,-1,-1,,"});
}

TEST_CASE("recorded shapes: a Context that outlives the program is written at exit, and processes share a file", "[runtime]") {
    const RecordingFile file;
    Attention a;
    std::vector<pid_t> children;
    std::cout.flush(), std::fflush(nullptr);  // a child would write buffered text, too
    for (int n = 0; n < 4; n++) {
        children.push_back(fork());
        if (children.back() != 0) continue;
        setenv("ATTUNE_RECORD_SHAPES", file.name().c_str(), 1);
        auto *context = new attune::Context({.threads = 1});
        const bool ok = a.run(*context).ok();
        std::exit(ok ? 0 : 1);
    }
    for (const pid_t child : children) {
        int status = 1;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    CHECK(file.lines().size() == 5);
    const auto shapes = file.shapes();
    REQUIRE(shapes.size() == 1);
    CHECK(shapes[0].calls == 4);
}

TEST_CASE("recorded shapes: a child that is forked writes its own calls, and leaves its parent's to it", "[runtime]") {
    const RecordingFile file;
    Attention a, longer{.k = 9};
    {
        Environment record("ATTUNE_RECORD_SHAPES", file.name());
        attune::Context context({.threads = 1}), idle({.threads = 1});
        CHECK(a.run(context).ok());
        CHECK(a.run(idle).ok());
        std::cout.flush(), std::fflush(nullptr);
        for (const bool calls : {true, false}) {
            const pid_t child = fork();
            if (child == 0) std::exit(!calls || longer.run(context).ok() ? 0 : 1);
            int status = 1;
            waitpid(child, &status, 0);
            CHECK(status == 0);
        }
    }
    int calls = 0, longer_ones = 0;
    for (const bench::Shape &s : file.shapes()) calls += int(s.calls), longer_ones += s.k == 9 ? int(s.calls) : 0;
    CHECK(calls == 3);
    CHECK(longer_ones == 1);
}

TEST_CASE("recorded shapes: a file that cannot be written is an error of every call", "[runtime]") {
    Environment record("ATTUNE_RECORD_SHAPES", "/proc/there/is/no/such/folder");
    attune::Context context;
    CHECK(context.status().code() == invalid);
    CHECK(message_defect(context.status().message(), "ATTUNE_RECORD_SHAPES", {"/proc/there/is/no/such/folder"}) == "");
    Attention a;
    CHECK(a.run(context).code() == invalid);
}
