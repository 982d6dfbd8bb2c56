// SPDX-License-Identifier: MIT
// Halide's intermediate code of a pipeline, before and after the passes of lowering/.
#pragma once
#include "lowering/lower.h"
#include <functional>
#include <memory>
#include <sstream>
#include <string>

// A mutator that appends the code to a text and changes nothing.
class Recorder : public Halide::Internal::IRMutator {
    const std::shared_ptr<std::string> text_;

public:
    explicit Recorder(std::shared_ptr<std::string> text) : text_(std::move(text)) {}
    using IRMutator::mutate;
    Halide::Internal::Stmt mutate(const Halide::Internal::Stmt &s) override {
        std::ostringstream out;
        out << s;
        *text_ = out.str();
        return s;
    }
};

struct Code {
    std::string before, after;
};

inline Code code_of(Halide::Func out, const std::vector<Halide::Argument> &arguments, const attune::Passes &passes,
                    const Halide::Target &target) {
    const auto before = std::make_shared<std::string>(), after = std::make_shared<std::string>();
    Halide::Pipeline pipeline(out);
    pipeline.add_custom_lowering_pass(new Recorder(before));
    attune::lower(pipeline, passes, target);
    pipeline.add_custom_lowering_pass(new Recorder(after));
    pipeline.compile_to_module(arguments, "kernel", target);
    return {*before, *after};
}

inline bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

inline int count(const std::string &text, const std::string &part) {
    int n = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) n++;
    return n;
}
