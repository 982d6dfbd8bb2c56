// SPDX-License-Identifier: MIT
// Every parameter of every space changes the code of its kernel: a search over another would be wasted.
// CMakeLists.txt lists the kernels, from the shipped parameters.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/tune/space.h"
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <sys/wait.h>
#include <tuple>

namespace attune::tune {
namespace {

struct Kernel {
    std::string op, generator, name, target, schedule, shape_class, dtype, others;
    int head_dim = 0;
    Parameters parameters;
};

Kernel kernel_of(const std::string &line) {
    std::istringstream words(line);
    Kernel k;
    words >> k.op >> k.generator >> k.name >> k.target;
    for (std::string word; words >> word;) {
        const std::string key = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
        const bool number = value.find_first_not_of("0123456789") == std::string::npos;
        if (number && key != "head_dim") {
            k.parameters[key] = std::stoi(value);
            continue;
        }
        k.others += " " + word;
        if (key == "head_dim") k.head_dim = std::stoi(value);
        if (key == "schedule") k.schedule = value;
        if (key == "dtype") k.dtype = value == "float32" ? "f32" : value == "bfloat16" ? "bf16" : "bool";
    }
    const std::string after = k.name.substr(k.name.find("_" + k.schedule) + k.schedule.size() + 1);
    for (const char *name : {"keys2048", "long", "medium", "short", "rows4", "many_rows", "depth_in_cache", "full_tiles",
                             "full_tiles_depth256", "rows1_full_tiles", "rows16_many_columns", "mem"})
        if (after == "_" + std::string(name)) k.shape_class = name;
    return k;
}

std::string command_of(const Kernel &k, const Parameters &parameters, const TemporaryFolder &folder) {
    const std::string generators = ATTUNE_GENERATORS;
    return generators + "/" + k.generator + ".generator -g " + k.generator + " -f kernel -n kernel -e stmt -o '" +
           folder.path() + "' target=" + k.target + ATTUNE_KERNEL_FEATURES + k.others + " " + text_of(parameters);
}

std::string text_of_file(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    REQUIRE(in);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Halide's statement of a kernel, before machine code: without file names, it differs if and only if the kernel does.
std::string code_of(const Kernel &k, const Parameters &parameters) {
    const TemporaryFolder folder;
    const std::string command = command_of(k, parameters, folder);
    CAPTURE(command);
    REQUIRE(std::system(command.c_str()) == 0);
    return text_of_file(folder / "kernel.stmt");
}

// A generator's message for parameters that it refuses.
std::string refusal_of(const Kernel &k, const Parameters &parameters) {
    const TemporaryFolder folder;
    const std::string command = command_of(k, parameters, folder) + " 2> '" + (folder / "said") + "'";
    CAPTURE(command);
    const int status = std::system(command.c_str());
    CHECK(WIFEXITED(status));
    CHECK(status != 0);
    return text_of_file(folder / "said");
}

// Legal parameters that differ from these in one parameter alone.
std::optional<Parameters> with_another(const Space &space, const SpaceParameter &parameter, const Parameters &parameters) {
    for (const int value : parameter.values) {
        Parameters other = parameters;
        other[parameter.name] = value;
        if (other != parameters && space.why_not(other).empty()) return other;
    }
    return {};
}

void vary_every_parameter(const Kernel &k) {
    const Facts facts = facts_of(k.target, k.dtype, k.head_dim, {32 << 10, 1 << 20});
    const Space space =
        Space::read(std::string(ATTUNE_SCHEDULES) + "/" + k.op + "/space.json", k.op, k.schedule, k.shape_class, facts);
    const Parameters completed = space.nearest(k.parameters);
    const std::string shipped = code_of(k, k.parameters);
    CAPTURE(k.name);
    if (completed != k.parameters) CHECK(code_of(k, completed) == shipped);  // a default of the space is the generator's
    for (const SpaceParameter &parameter : space.parameters()) {
        if (parameter.values.size() == 1) continue;
        CAPTURE(parameter.name);
        // If no legal value differs alone, start from the first point of the space that has one.
        std::optional<Parameters> from = completed, to = with_another(space, parameter, completed);
        if (!to)
            for (const Parameters &point : space.all())
                if ((to = with_another(space, parameter, point))) {
                    from = point;
                    break;
                }
        REQUIRE(to);
        const bool changed = code_of(k, *to) != (from == completed ? shipped : code_of(k, *from));
        CHECK(changed);
    }
}

void vary_parameters_of(const std::vector<std::string> &generators) {
    std::ifstream in(ATTUNE_SPACE_KERNELS);
    std::size_t kernels = 0;
    for (std::string line; std::getline(in, line);) {
        const Kernel kernel = kernel_of(line);
        if (std::find(generators.begin(), generators.end(), kernel.generator) == generators.end()) continue;
        vary_every_parameter(kernel);
        kernels++;
    }
    REQUIRE(kernels > 0);
}

TEST_CASE("parameters that no kernel can be made of are refused in a line", "[tune][space]") {
    const std::vector<std::tuple<std::string, std::string, int, std::string>> wrong = {
        {"pack_linear_weight", "block", 1, "block is 1, must be a power of two, at least 2"},
        {"pack_linear_weight", "block", 0, "block must be from 2 to the words of a vector, 4"},
        {"linear", "block", 1, "block is 1, must be a power of two, at least 2"},
        {"masked_softmax", "task_rows", 1, "task_rows must be at least 2: Halide does not compile tasks of one row"}};
    for (const auto &[op, parameter, value, expected] : wrong) {
        std::ifstream in(ATTUNE_SPACE_KERNELS);
        int kernels = 0;
        for (std::string line; std::getline(in, line);) {
            const Kernel k = kernel_of(line);
            if (k.op != op || k.target != "x86-64-linux") continue;
            Parameters parameters = k.parameters;
            parameters[parameter] = value;
            const std::string said = refusal_of(k, parameters), why = "attune: " + expected + "\n";
            CAPTURE(said);
            CHECK(said.find(why) != said.npos);
            CHECK(said.find_first_not_of('\n', said.find(why) + why.size()) == said.npos);
            CHECK(std::count(said.begin(), said.end(), '\n') <= 2);
            kernels++;
        }
        CHECK(kernels == 1);
    }
}

TEST_CASE("every parameter of attention changes its code", "[tune][space]") { vary_parameters_of({"sdpa"}); }
TEST_CASE("every parameter of its gradients changes their code", "[tune][space]") { vary_parameters_of({"sdpa_backward"}); }
TEST_CASE("every parameter of the other ops changes their code", "[tune][space]") {
    vary_parameters_of({"linear", "batch_dot", "transposed_dot", "pack_linear_weight", "masked_softmax", "max_magnitude",
                        "merge", "head_mean", "weight_sums", "dropout_mask", "rows", "dequantise_rows",
                        "transform_rows_backward"});
}

}  // namespace
}  // namespace attune::tune
