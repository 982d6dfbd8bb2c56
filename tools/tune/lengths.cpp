// SPDX-License-Identifier: MIT
#include "lengths.h"
#include <algorithm>
#include <bit>
#include <map>

namespace attune::tune {
namespace {

// Key of a group of shapes: all but the lengths, and their powers of two.
bench::Columns kind_of(const bench::Shape &s) {
    const auto octave = [](std::int64_t n) { return std::to_string(std::bit_width(static_cast<std::uint64_t>(n))); };
    bench::Columns group = bench::columns_of(s);
    for (auto &[column, text] : group) {
        if (column == "q") text = octave(s.q);
        if (column == "k") text = octave(s.k);
        if (column == "length") text = std::to_string(s.lengths.size());
    }
    return group;
}

WeightedShape representative_of(std::vector<WeightedShape> group) {
    std::stable_sort(group.begin(), group.end(),
                     [](const WeightedShape &a, const WeightedShape &b) { return a.shape.work() < b.shape.work(); });
    double all = 0, below = 0;
    for (const WeightedShape &s : group) all += s.weight;
    const auto found = std::find_if(group.begin(), group.end(), [&](const WeightedShape &s) {
        below += s.weight;
        return 2 * below >= all;
    });
    return {(found == group.end() ? group.back() : *found).shape, all};
}

}  // namespace

std::vector<WeightedShape> group_lengths(const std::vector<WeightedShape> &shapes) {
    if (shapes.size() <= most_single_shapes) return shapes;
    std::map<bench::Columns, std::size_t> places;
    std::vector<std::vector<WeightedShape>> groups;
    for (const WeightedShape &s : shapes) {
        const auto [place, first] = places.try_emplace(kind_of(s.shape), groups.size());
        if (first) groups.emplace_back();
        groups[place->second].push_back(s);
    }
    std::vector<WeightedShape> grouped;
    for (std::vector<WeightedShape> &group : groups) grouped.push_back(representative_of(std::move(group)));
    return grouped;
}

}  // namespace attune::tune
