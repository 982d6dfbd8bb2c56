// SPDX-License-Identifier: MIT
#include "subject.h"
#include "candidates.h"
#include "lengths.h"
#include "shapes_file.h"
#include "tools/error.h"
#include "user_captures.h"

namespace attune::tune {
namespace {
using program::InputError;

Captures parse_captures(const std::vector<std::string> &given) {
    Captures captures;
    for (const std::string &one : given) {
        const std::size_t equals = one.find('=');
        if (equals == 0 || equals == one.npos || equals + 1 == one.size())
            throw InputError("--capture", "must be name=file.npy or name=number, got \"" + one + "\"");
        if (!captures.emplace(one.substr(0, equals), one.substr(equals + 1)).second)
            throw InputError("--capture", one.substr(0, equals) + " is given twice");
    }
    return captures;
}

}  // namespace

Subject find_subject(const std::string &name, const Generators &generators, const std::optional<std::string> &shapes,
                     const std::vector<std::string> &captures, Lengths lengths) {
    Subject subject;
    const std::string op = generators.op_of(name);
    const auto group = [&] {
        subject.given = subject.shapes.size();
        if (lengths == Lengths::grouped) subject.shapes = group_lengths(subject.shapes);
    };
    subject.op = op, subject.like = generators.like(op);
    subject.file = shapes ? *shapes : generators.shapes_folder() + "/" + subject.like + ".csv";
    if (!shapes && !std::filesystem::exists(subject.file))
        throw InputError(name, "has no shapes of its own, name a file with --shapes; ops that have: " + generators.tunable());
    subject.shapes = read_weighted_shapes(subject.file);
    const Captures given = parse_captures(captures);
    if (!generators.is_users(op)) {
        if (!given.empty()) throw InputError("--capture", op + " is an op of the library, which captures nothing");
        group();
        return subject;
    }
    std::erase_if(subject.shapes, [&](const WeightedShape &s) {
        if (s.shape.op != subject.like) return true;
        if (s.shape.dtype != DType::f64) return false;
        subject.left_out.push_back(s.shape.label() + ": f64, which nothing more exact can judge");
        return true;
    });
    group();
    subject.user.module = generators.module(op);
    load_attention(subject.user.module);
    std::vector<bench::Shape> all;
    for (const WeightedShape &s : subject.shapes) all.push_back(s.shape);
    const std::string folder = (cache_folder() / "captures").string();
    subject.user.captures = complete_captures(op, given, all, folder, subject.made_up);
    return subject;
}

}  // namespace attune::tune
