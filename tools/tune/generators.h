// SPDX-License-Identifier: MIT
// Generator programs, and their arguments: from a build tree, an installed package, or a user's own build.
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
    std::vector<std::string> parameters;  // parameters of the op: pair=additive...
    std::string target;                   // Halide's name of the target, "x86-64-linux-avx..."
    std::string dtype;                    // Halide's name of the element type, "float32"
    bool attention = false;               // whether it takes head_dim and kind
    std::string algorithm;                // hash of its sources without comments: equations and schedules
    std::string halide;                   // version of Halide
    std::uint64_t hash = 0;               // hash of the program
};

// Reader of attune_generators.json, which CMake writes into the build folder of every project that makes kernels
// (cmake/attune_programs.cmake).
class Generators {
public:
    // Finds the programs for an op: in the given build folder, else in the package that this program was installed with, else
    // in the tree that it was built in. A package's programs are built once, in the user's cache. Throws InputError or
    // MachineError that says what is missing and how to get it.
    static Generators find(const std::string &op, const std::optional<std::string> &build);

    // Brings the program up to date. Throws InputError for a type or target that does not exist.
    GeneratorProgram program(const std::string &op, const std::string &dtype, const std::string &target) const;

    std::string schedules() const { return source_dir_ + "/schedules"; }
    std::string shapes_folder() const { return source_dir_ + "/tools/tune/shapes"; }
    std::string space_file(const std::string &op) const;
    // File of the library's own parameters. Throws InputError where this user must not write it: for an installed package, or a
    // user's own attention.
    std::string parameters_file(const std::string &op, const std::string &target) const;
    // The op whose parameters and space serve where this op has none: sdpa for a user's attention; else itself.
    std::string like(const std::string &op) const;
    bool is_users(const std::string &op) const;  // an attention of attune_add_attention(), or its gradients
    // The op of a name given to attune_add_attention() ("recency": user_recency); for other names the name itself.
    std::string op_of(const std::string &name) const;
    // The name of an op, which is that of its parameter files.
    static std::string name_of_op(const std::string &op);
    std::string tunable() const;  // ops with shapes or, in a user's project, its attentions
    // The program `attune` of a build tree, brought up to date with its parameters and coefficients; empty for a package, or
    // for the project of a user.
    std::string program_of_build() const;
    // The shared object of a user's attention (attune_add_attention), up to date. Throws InputError for other ops.
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
