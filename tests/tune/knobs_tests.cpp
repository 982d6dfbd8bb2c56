// Every knob of every space changes the code of its kernel: one that does not would be searched for nothing. CMakeLists.txt
// lists the kernels, from the numbers that are shipped.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/tune/space.h"
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

namespace attune::tune {
namespace {

struct Kernel {
    std::string op, generator, name, target, schedule, shape_class, dtype, others;
    int head_dim = 0;
    Numbers numbers;
};

Kernel kernel_of(const std::string &line) {
    std::istringstream words(line);
    Kernel k;
    words >> k.op >> k.generator >> k.name >> k.target;
    for (std::string word; words >> word;) {
        const std::string key = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
        const bool number = value.find_first_not_of("0123456789") == std::string::npos;
        if (number && key != "head_dim") {
            k.numbers[key] = std::stoi(value);
            continue;
        }
        k.others += " " + word;
        if (key == "head_dim") k.head_dim = std::stoi(value);
        if (key == "schedule") k.schedule = value;
        if (key == "dtype") k.dtype = value == "float32" ? "f32" : value == "bfloat16" ? "bf16" : "bool";
    }
    const std::string after = k.name.substr(k.name.find("_" + k.schedule) + k.schedule.size() + 1);
    for (const char *name : {"long", "short", "g4", "many", "whole"})
        if (after == "_" + std::string(name)) k.shape_class = name;
    return k;
}

// What Halide makes of it, before machine code: without names of files, it differs if and only if the kernel does.
std::string code_of(const Kernel &k, const Numbers &numbers) {
    const TemporaryFolder folder;
    const std::string generators = ATTUNE_GENERATORS;
    const std::string command = generators + "/" + k.generator + ".generator -g " + k.generator +
                                " -f kernel -n kernel -e stmt -o '" + folder.path() + "' target=" + k.target +
                                "-user_context-no_bounds_query-no_runtime" + k.others + " " + text_of(numbers);
    CAPTURE(command);
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream in(folder / "kernel.stmt", std::ios::binary);
    REQUIRE(in);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Numbers that differ from these in the knob alone.
std::optional<Numbers> with_another(const Space &space, const Knob &knob, const Numbers &numbers) {
    for (const int value : knob.values) {
        Numbers other = numbers;
        other[knob.name] = value;
        if (other != numbers && space.why_not(other).empty()) return other;
    }
    return {};
}

void turn_every_knob(const Kernel &k) {
    const Facts facts = facts_of(k.target, k.dtype, k.head_dim, {32 << 10, 1 << 20});
    const Space space =
        Space::read(std::string(ATTUNE_SCHEDULES) + "/" + k.op + "/space.json", k.op, k.schedule, k.shape_class, facts);
    const Numbers completed = space.nearest(k.numbers);
    const std::string shipped = code_of(k, k.numbers);
    CAPTURE(k.name);
    if (completed != k.numbers) CHECK(code_of(k, completed) == shipped);  // a default of the space is the generator's
    for (const Knob &knob : space.knobs()) {
        if (knob.values.size() == 1) continue;
        CAPTURE(knob.name);
        // Where no legal value is alone another, from the first point of the space that has one.
        std::optional<Numbers> from = completed, to = with_another(space, knob, completed);
        if (!to)
            for (const Numbers &point : space.all())
                if ((to = with_another(space, knob, point))) {
                    from = point;
                    break;
                }
        REQUIRE(to);
        const bool changed = code_of(k, *to) != (from == completed ? shipped : code_of(k, *from));
        CHECK(changed);
    }
}

void turn_knobs_of(const std::vector<std::string> &generators) {
    std::ifstream in(ATTUNE_KNOB_KERNELS);
    std::size_t kernels = 0;
    for (std::string line; std::getline(in, line);) {
        const Kernel kernel = kernel_of(line);
        if (std::find(generators.begin(), generators.end(), kernel.generator) == generators.end()) continue;
        turn_every_knob(kernel);
        kernels++;
    }
    REQUIRE(kernels > 0);
}

TEST_CASE("every knob of attention changes its code", "[tune][knobs]") { turn_knobs_of({"sdpa"}); }
TEST_CASE("every knob of its gradients changes their code", "[tune][knobs]") { turn_knobs_of({"sdpa_backward"}); }
TEST_CASE("every knob of the other ops changes their code", "[tune][knobs]") {
    turn_knobs_of({"linear", "batch_dot", "transposed_dot", "pack_linear_weight", "masked_softmax", "max_magnitude", "merge",
                   "dropout_mask"});
}

}  // namespace
}  // namespace attune::tune
