// SPDX-License-Identifier: MIT
// NAME.describe: the program that writes <name>.h, <name>.cpp and <name>_parallel.cpp of the user's attention that it is linked
// with.
// usage: NAME.describe NAME SOURCE BACKWARD(0|1) F64(0|1) FOLDER
#include "generators/attention/equations/score_derivative.h"
#include "generators/attention/equations/user_attention.h"
#include "generators/mask_blocks/mask_blocks_stages.h"
#include <fstream>
#include <iostream>
#include <sstream>

namespace {
using namespace Halide;

struct Known {
    bool has_gradient = false, by_batch = true, by_head = true;  // of a capture with a gradient
};

// Properties of a capture by its derivatives: whether it has a gradient, and which pairs share its elements.
Known known_of(const attune::UserAttention &user, const attune::Capture::State &capture) {
    const Expr score = Internal::Variable::make(Float(32), "score");
    const attune::Index at = attune::symbolic_index();
    Known known;
    auto ask = [&](const attune::ScoreFunction &function) {
        for (const attune::CaptureDerivative &d : attune::capture_derivatives(function, score, at)) {
            if (d.buffer != "capture_" + capture.name) continue;
            known.has_gradient = true;
            bool by_batch = false, by_head = false;
            for (const Expr &e : d.element) {
                by_batch = by_batch || Internal::equal(e, at.b);
                by_head = by_head || Internal::equal(e, at.h);
            }
            known.by_batch = known.by_batch && by_batch, known.by_head = known.by_head && by_head;
        }
    };
    if (user.score) ask(user.score);
    if (user.probability) ask([&](const Expr &x, const attune::Index &i) { return cast(x.type(), user.probability(i)); });
    return known;
}

std::string type_in_words(const attune::Capture::State &c) {
    if (c.of_scores) return "f64 for f64, else f32";
    return c.type == Float(32) ? "f32" : c.type == Float(64) ? "f64" : c.type == Bool() ? "bool" : "int32";
}
std::string dtype_of(const attune::Capture::State &c) {
    return c.type == Float(32) ? "f32" : c.type == Float(64) ? "f64" : c.type == Bool() ? "boolean" : "i32";
}

// Functions of context_parallel.h that take a user's attention: name, and the comment of its declaration.
struct Collective {
    const char *name, *comment;
};
constexpr Collective collectives[] = {
    {"ring_attention", "Chunks of keys and values travel round the ranks."},
    {"gathered_attention", "All keys and values that a rank's queries see come first."},
    {"head_parallel_attention", "Each rank computes some heads of all positions."},
    {"sharded_decode", "Few queries, the same on every rank, over caches that are spread over the ranks."},
};
std::string tensors_of(const std::string &indent) {
    return "const attune::ConstView &query, const attune::ConstView &key,\n" + indent + "const attune::ConstView &value, ";
}

// Declarations of the functions over ranks.
std::string collectives_of(bool backward) {
    const std::string group = "attune::Context &, const attune::Communicator &, const attune::ParallelPlan &,";
    std::ostringstream h;
    h << "\n// Over the ranks of a communicator, as the functions of these names in attune/context_parallel.h: indices of the "
         "score\n"
         "// and mask are those of all positions, of which packed documents are batch entries. Captures are those of all "
         "positions,\n// equal on every rank; block_mask is not used.\n";
    for (const Collective &c : collectives)
        h << "// " << c.comment << "\nattune::Status " << c.name << "(" << group << "\n    " << tensors_of("    ")
          << "const attune::View &out,\n    const Options & = {}, attune::ParallelReport * = nullptr) noexcept;\n";
    if (backward)
        h << "// Gradients of any of these but sharded_decode; those of captures are of all ranks, on each.\n"
          << "attune::Status ring_attention_backward(" << group << "\n    " << tensors_of("    ")
          << "const attune::SdpaForward &,\n    const Gradients &, const Options & = {}, attune::ParallelReport * = nullptr) "
             "noexcept;\n";
    return h.str();
}

std::string header_of(const attune::UserAttention &user, const std::string &name, const std::string &source, bool backward) {
    std::ostringstream h;
    h << "// Made by attune_add_attention() of " << user.name << " in " << source << ".\n"
      << "#pragma once\n#include <attune/block_mask.h>\n#include <attune/context_parallel.h>\n"
      << "#include <attune/sdpa_backward.h>\n\nnamespace " << name << " {\n\nstruct Options {\n";
    for (const auto &c : user.captures) {
        if (c->dimensions > 0)
            h << "    attune::ConstView " << c->name << " = {};  // " << type_in_words(*c) << ", rank " << c->dimensions
              << "\n";
        else
            h << "    std::optional<" << (c->type.is_float() ? "double" : "std::int32_t") << "> " << c->name << " = {};\n";
    }
    h << "    attune::SdpaOptions sdpa = {};\n";
    if (user.mask) h << "    attune::BlockMask *block_mask = nullptr;  // null: the mask is asked in each call\n";
    h << "};\n\n// As attune::scaled_dot_product_attention() (attune/sdpa.h), with the score and mask of " << user.name
      << " behind softcap, bias and ALiBi.\n"
      << "attune::Status forward(attune::Context &, " << tensors_of("                       ")
      << "const attune::View &out, const Options & = {}) noexcept;\n";
    if (backward) {
        h << "\n// Outputs; each may be left out.\nstruct Gradients {\n    attune::SdpaGradients sdpa = {};\n";
        for (const auto &c : user.captures)
            if (known_of(user, *c).has_gradient)
                h << "    attune::View " << c->name << " = {};  // as Options::" << c->name << "\n";
        h << "};\n\n// As attune::scaled_dot_product_attention_backward() (attune/sdpa_backward.h).\n"
          << "attune::Status backward(attune::Context &, " << tensors_of("                        ")
          << "const attune::SdpaForward &, const Gradients &,\n                        const Options & = {}) noexcept;\n";
    }
    h << collectives_of(backward) << "\n}  // namespace " << name << "\n";
    return h.str();
}

// The record of the attention, with its variants and captures.
std::string record_of(const attune::UserAttention &user, const std::string &name, bool backward) {
    std::ostringstream s;
    s << "namespace {\nconstexpr VariantRecord variants[] = {\n#include \"" << name << "_variants.inc\"\n};\n";
    if (!user.captures.empty()) {
        s << "constexpr CaptureRecord captures[] = {\n";
        for (const auto &c : user.captures) {
            const Known known = known_of(user, *c);
            s << "    {\"" << c->name << "\", " << c->of_scores << ", DType::" << dtype_of(*c) << ", " << c->dimensions << ", "
              << (known.has_gradient && known.by_batch) << ", " << (known.has_gradient && known.by_head) << ", "
              << known.has_gradient << "},\n";
        }
        s << "};\n";
    }
    s << "}  // namespace\n\n";
    attune::MaskDependence mask{};
    if (user.mask) mask = attune::dependence_of(user.mask);
    s << "// Hidden: a program may have the attention linked in, and load a module with another "
         "copy.\n[[gnu::visibility(\"hidden\")]] extern constexpr AttentionRecord record{\""
      << name << "\", \"user_" << name << "\", \"" << (backward ? "user_" + name + "_backward" : "") << "\", "
      << (user.captures.empty() ? "{}" : "captures") << ", " << bool(user.mask) << ", " << mask.on_batch << ", " << mask.on_head
      << ", variants};\n\nnamespace {\nconst AttentionRegistration registration(record);\n}\n";
    return s.str();
}

// Text of the two sources of a library: the record and its functions, and the functions over ranks, which a program that does
// not call them does not link.
class Sources {
public:
    Sources(const attune::UserAttention &user, const std::string &name, bool backward)
        : user_(user), name_(name), backward_(backward) {
        given_ = "    const CaptureArgument given[] = {", captured_ = "    const View captured[] = {";
        for (const auto &c : user.captures) {
            given_ += c->dimensions > 0 ? "{options." + c->name + ", {}}, " : "{{}, options." + c->name + "}, ";
            captured_ += (known_of(user, *c).has_gradient ? "gradients." + c->name : "{}") + ", ";
        }
        given_ += "{}};\n", captured_ += "{}};\n";
        captures_ = "{given, " + std::to_string(user.captures.size()) + "}";
        grad_captures_ = "{captured, " + std::to_string(user.captures.size()) + "}";
    }

    std::string own() const {
        const std::string block_mask = user_.mask ? "options.block_mask" : "nullptr";
        std::ostringstream s;
        s << "#include \"" << name_ << ".h\"\n#include <attune/detail/user_attention.h>\n\nextern \"C\" {\n#include \"" << name_
          << "_symbols.inc\"\n}\n\nnamespace " << name_ << " {\n\nusing namespace attune;\n"
          << "using namespace attune::detail;\n\n"
          << record_of(user_, name_, backward_) << "\nStatus forward(Context &context, " << tensors_
          << "const View &out, const Options &options) noexcept {\n"
          << given_ << "    return run_user_attention(context, record, query, key, value, out, options.sdpa, " << captures_
          << ", " << block_mask << ");\n}\n";
        if (backward_)
            s << "\nStatus backward(Context &context, " << tensors_
              << "const SdpaForward &forward, const Gradients &gradients, const Options &options) noexcept {\n"
              << given_ << captured_
              << "    return run_user_attention_backward(context, record, query, key, value, forward, gradients.sdpa, "
              << grad_captures_ << ",\n        options.sdpa, " << captures_ << ", " << block_mask << ");\n}\n";
        s << "\n}  // namespace " << name_ << "\n";
        return s.str();
    }

    std::string over_ranks() const {
        const std::string group = "Context &context, const Communicator &communicator, const ParallelPlan &plan,\n    ";
        std::ostringstream s;
        s << "#include \"" << name_ << ".h\"\n#include <attune/detail/user_attention.h>\n\nnamespace " << name_
          << " {\n\nusing namespace attune;\nusing namespace attune::detail;\n\n[[gnu::visibility(\"hidden\")]] extern const "
             "AttentionRecord record;\n";
        for (const Collective &c : collectives)
            s << "\nStatus " << c.name << "(" << group << tensors_
              << "const View &out, const Options &options, ParallelReport *report) noexcept {\n"
              << given_ << "    return run_user_attention_over_ranks(context, Collective::" << c.name
              << ", communicator, plan, record, query, key, value, out,\n        {options.sdpa, report}, " << captures_
              << ");\n}\n";
        if (backward_)
            s << "\nStatus ring_attention_backward(" << group << tensors_
              << "const SdpaForward &forward, const Gradients &gradients, const Options &options,\n    ParallelReport *report) "
                 "noexcept {\n"
              << given_ << captured_
              << "    return run_user_attention_backward_over_ranks(context, communicator, plan, record, query, key, value, "
                 "forward,\n        gradients.sdpa, "
              << grad_captures_ << ", {options.sdpa, report}, " << captures_ << ");\n}\n";
        s << "\n}  // namespace " << name_ << "\n";
        return s.str();
    }

private:
    const attune::UserAttention &user_;
    const std::string name_;
    const bool backward_;
    std::string given_, captured_, captures_, grad_captures_;
    const std::string tensors_ = "const ConstView &query, const ConstView &key, const ConstView &value,\n    ";
};

// Evaluates every member, so that errors are reported here, once, and not by each kernel.
void ask(const attune::UserAttention &user, bool backward, bool f64) {
    const attune::Index at = attune::symbolic_index();
    for (const Type type : {Float(64), Float(32)}) {
        if (type == Float(64) && !f64) continue;
        attune::connect_to_symbols(user, type);
        const Expr score = Internal::Variable::make(type, "score");
        const auto check = [&](const Expr &e, const char *member) {
            if (type == Float(64)) attune::refuse_lost_digits(e, user.name + "::" + member);
        };
        if (user.score) check(user.score(score, at), "score");
        if (user.score && backward) attune::score_derivative(user.score, score, at);
        if (user.mask) check(user.mask(at), "mask");
        if (user.probability) check(user.probability(at), "probability");
    }
}

bool write(const std::string &path, const std::string &text) {
    std::ofstream file(path);
    file << text;
    return bool(file.flush());
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 6) {
        std::cerr << "usage: " << argv[0] << " NAME SOURCE BACKWARD(0|1) F64(0|1) FOLDER\n";
        return 2;
    }
    try {
        const attune::UserAttention &user = *attune::user_attention();
        const std::string name = argv[1], base = std::string(argv[5]) + "/" + name;
        const bool backward = std::string(argv[3]) == "1", f64 = std::string(argv[4]) == "1";
        attune::check_word(name, "a library");
        ask(user, backward, f64);
        const Sources sources(user, name, backward);
        if (write(base + ".h", header_of(user, name, argv[2], backward)) && write(base + ".cpp", sources.own()) &&
            write(base + "_parallel.cpp", sources.over_ranks()))
            return 0;
        std::cerr << "cannot write " << base << ".h\n";
    } catch (const Error &e) {  // Halide's error, which is no std::exception
        std::cerr << argv[2] << ": " << e.what() << "\n";
    } catch (const std::exception &e) {
        std::cerr << argv[2] << ": " << e.what() << "\n";
    }
    return 1;
}
