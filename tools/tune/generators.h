// SPDX-License-Identifier: MIT
// The programs that make kernels, and what they have to be told: of a build tree, of an installed package, of a user's own
// build.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct GeneratorProgram {
    std::string program;                  // its path
    std::string generator;                // the name of the generator in it
    std::vector<std::string> parameters;  // of the op: pair=additive...
    std::string target;                   // Halide's name of the target, "x86-64-linux-avx..."
    std::string dtype;                    // Halide's name of the element type, "float32"
    bool attention = false;               // whether it takes head_dim and kind
    std::string algorithm;                // hash of what the program is built from: equations and schedules
    std::string halide;                   // version
    std::uint64_t hash = 0;               // of the program
};

// attune_generators.json, which CMake writes into the build folder of every project that makes kernels
// (cmake/attune_programs.cmake).
class Generators {
public:
    // For an op: of the build folder that is given, else of the package that this program was installed with, else of the tree
    // that it was built in. A package's are made in the user's cache, once. Throws InputError or MachineError that says what is
    // missing and how to get it.
    static Generators find(const std::string &op, const std::optional<std::string> &build);

    // The program is made up to date. Throws InputError for a type or target that there is none of.
    GeneratorProgram program(const std::string &op, const std::string &dtype, const std::string &target) const;

    std::string schedules() const { return source_dir_ + "/schedules"; }
    std::string shapes_folder() const { return source_dir_ + "/tools/tune/shapes"; }
    std::string space_file(const std::string &op) const;
    // Where the library's own parameters are kept. Throws InputError where that is not this user's to write: an installed
    // package, or a user's own attention.
    std::string parameters_file(const std::string &op, const std::string &target) const;
    // The op whose parameters and space serve where there are none of this one: sdpa for a user's attention; else itself.
    std::string like(const std::string &op) const;
    bool is_users(const std::string &op) const;  // an attention of attune_add_attention(), or its gradients
    // The op of a name that attune_add_attention() was given ("recency": user_recency); of other names the name.
    std::string op_of(const std::string &name) const;
    // The name again, of which the parameters files are.
    static std::string name_of_op(const std::string &op);
    std::string tunable() const;  // ops that have shapes or, of a user's project, its attentions
    // Of a user's attention: the shared object that knows it (attune_add_attention), made up to date. Throws InputError for
    // other ops.
    std::string module(const std::string &op) const;

private:
    explicit Generators(std::string folder);
    const nlohmann::json &of_op(const std::string &op) const;
    void build(const std::string &target) const;
    bool up_to_date(const nlohmann::json &program) const;
    std::vector<std::string> files_of(const nlohmann::json &program) const;

    std::string folder_, source_dir_;
    bool installed_ = false;
    nlohmann::json json_;
};

}  // namespace attune::tune
