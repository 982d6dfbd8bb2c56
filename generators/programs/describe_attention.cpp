// SPDX-License-Identifier: MIT
// NAME.describe: the program that writes <name>.h and <name>.cpp of the user's attention that it is linked with.
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

std::string header_of(const attune::UserAttention &user, const std::string &name, const std::string &source, bool backward) {
    std::ostringstream h;
    h << "// Made by attune_add_attention() of " << user.name << " in " << source << ".\n"
      << "#pragma once\n#include <attune/block_mask.h>\n#include <attune/sdpa_backward.h>\n\nnamespace " << name
      << " {\n\nstruct Options {\n";
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
      << "attune::Status forward(attune::Context &, const attune::ConstView &query, const attune::ConstView &key,\n"
      << "                       const attune::ConstView &value, const attune::View &out, const Options & = {}) noexcept;\n";
    if (backward) {
        h << "\n// Outputs; each may be left out.\nstruct Gradients {\n    attune::SdpaGradients sdpa = {};\n";
        for (const auto &c : user.captures)
            if (known_of(user, *c).has_gradient)
                h << "    attune::View " << c->name << " = {};  // as Options::" << c->name << "\n";
        h << "};\n\n// As attune::scaled_dot_product_attention_backward() (attune/sdpa_backward.h).\n"
          << "attune::Status backward(attune::Context &, const attune::ConstView &query, const attune::ConstView &key,\n"
          << "                        const attune::ConstView &value, const attune::SdpaForward &, const Gradients &,\n"
          << "                        const Options & = {}) noexcept;\n";
    }
    h << "\n}  // namespace " << name << "\n";
    return h.str();
}

std::string source_of(const attune::UserAttention &user, const std::string &name, bool backward) {
    std::ostringstream s;
    s << "#include \"" << name << ".h\"\n#include <attune/detail/user_attention.h>\n\nextern \"C\" {\n#include \"" << name
      << "_symbols.inc\"\n}\n\nnamespace " << name
      << " {\nnamespace {\n\nusing namespace attune;\nusing namespace attune::detail;\n\nconstexpr VariantRecord variants[] = "
         "{\n#include \""
      << name << "_variants.inc\"\n};\n";
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
    attune::MaskDependence mask{};
    if (user.mask) mask = attune::dependence_of(user.mask);
    s << "constexpr AttentionRecord record{\"" << name << "\", \"user_" << name << "\", \""
      << (backward ? "user_" + name + "_backward" : "") << "\", " << (user.captures.empty() ? "{}" : "captures") << ", "
      << bool(user.mask) << ", " << mask.on_batch << ", " << mask.on_head
      << ", variants};\nconst AttentionRegistration registration(record);\n\n}  // namespace\n\n"
      << "Status forward(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const View "
         "&out,\n"
      << "               const Options &options) noexcept {\n";
    auto arguments = [&] {
        s << "    const CaptureArgument given[] = {";
        for (const auto &c : user.captures)
            s << (c->dimensions > 0 ? "{options." + c->name + ", {}}, " : "{{}, options." + c->name + "}, ");
        s << "{}};\n";
        return "ArrayView<const CaptureArgument>(given, " + std::to_string(user.captures.size()) + "), " +
               (user.mask ? "options.block_mask" : "nullptr");
    };
    std::string more = arguments();
    s << "    return run_user_attention(context, record, query, key, value, out, options.sdpa, " << more << ");\n}\n";
    if (backward) {
        s << "\nStatus backward(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,\n"
          << "                const SdpaForward &forward, const Gradients &gradients, const Options &options) noexcept {\n";
        more = arguments();
        s << "    const View captured[] = {";
        for (const auto &c : user.captures) s << (known_of(user, *c).has_gradient ? "gradients." + c->name : "{}") << ", ";
        s << "{}};\n    return run_user_attention_backward(context, record, query, key, value, forward, gradients.sdpa,\n"
          << "                                       ArrayView<const View>(captured, " << user.captures.size()
          << "), options.sdpa, " << more << ");\n}\n";
    }
    s << "\n}  // namespace " << name << "\n";
    return s.str();
}

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
        if (write(base + ".h", header_of(user, name, argv[2], backward)) &&
            write(base + ".cpp", source_of(user, name, backward)))
            return 0;
        std::cerr << "cannot write " << base << ".h\n";
    } catch (const Error &e) {  // Halide's error, which is no std::exception
        std::cerr << argv[2] << ": " << e.what() << "\n";
    } catch (const std::exception &e) {
        std::cerr << argv[2] << ": " << e.what() << "\n";
    }
    return 1;
}
