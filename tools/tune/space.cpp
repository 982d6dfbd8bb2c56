// SPDX-License-Identifier: MIT
#include "space.h"
#include "expression.h"
#include "space_file.h"
#include "tools/error.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attune::tune {
namespace {
using program::InputError;

using Point = std::vector<int>;  // places in the values of each knob

struct Constraint {
    Expression required;
    Words broken;
};

// How far a number is from another: in doublings. 0 stands for "none" or "all" and is next to 1.
double far(int a, int b) { return std::abs(std::log2(std::max(a, 0) + 0.5) - std::log2(std::max(b, 0) + 0.5)); }

}  // namespace

struct Space::Parts {
    std::string file, schedule;
    Values values;
    std::vector<Knob> knobs;
    std::vector<std::optional<int>> otherwise;
    std::vector<Constraint> constraints;
    std::vector<std::vector<const Constraint *>> decided;  // by this knob, when those before it have values
    std::vector<double *> at;                              // the values of the knobs
    std::vector<Point> legal;
    std::size_t product = 1;

    void read_knobs(const std::vector<KnobLines> &);
    void read_constraints(const std::vector<std::pair<std::string, std::string>> &);
    void find_legal(Point &);
    void leave_out_values();
    void set(const Numbers &) const;
    const Constraint *broken() const;
    Numbers numbers_of(const Point &) const;
    std::optional<Point> point_of(const Numbers &) const;
    Numbers closest(const Numbers &, const std::vector<Point> &) const;
};

void Space::Parts::read_knobs(const std::vector<KnobLines> &lines) {
    for (const KnobLines &line : lines) {
        const std::string where = "knobs." + line.name + ": ";
        Knob knob{line.name, {}, line.stage};
        for (const std::string &text : line.values) {
            double value = 0;
            try {
                value = Expression(text, values).value();
            } catch (const std::runtime_error &error) {
                throw InputError(file, where + error.what());
            }
            if (value != std::floor(value) || value < 0 || value > 1 << 30)
                throw InputError(file, where + "\"" + text + "\" is no whole number here");
            knob.values.push_back(int(value));
        }
        std::sort(knob.values.begin(), knob.values.end());
        knob.values.erase(std::unique(knob.values.begin(), knob.values.end()), knob.values.end());
        if (knob.stage < 1) throw InputError(file, where + "stages count from 1");
        if (values.contains(knob.name)) throw InputError(file, where + "is the name of a fact");
        product *= knob.values.size();
        knobs.push_back(knob);
        otherwise.push_back(line.otherwise);
    }
    // Legal points are listed; so many would take minutes.
    if (constexpr std::size_t most = 2'000'000; product > most)
        throw InputError(file, schedule + ": " + std::to_string(product) + " points, more than " + std::to_string(most));
    for (const Knob &knob : knobs) values[knob.name] = knob.values[0];
    for (const Knob &knob : knobs) at.push_back(&values[knob.name]);
}

void Space::Parts::read_constraints(const std::vector<std::pair<std::string, std::string>> &lines) {
    for (const auto &[required, words] : lines) {
        try {
            constraints.push_back({Expression(required, values), Words(words, values)});
        } catch (const std::runtime_error &error) {
            throw InputError(file, "constraints: " + std::string(error.what()));
        }
    }
    decided.resize(knobs.size());
    for (const Constraint &constraint : constraints) {
        std::size_t last = 0;
        const auto names = constraint.required.names();
        for (std::size_t n = 0; n < knobs.size(); n++)
            if (std::find(names.begin(), names.end(), knobs[n].name) != names.end()) last = n;
        decided[last].push_back(&constraint);
    }
}

void Space::Parts::find_legal(Point &point) {
    const std::size_t n = point.size();
    if (n == knobs.size()) {
        legal.push_back(point);
        return;
    }
    for (int place = 0; place < int(knobs[n].values.size()); place++) {
        *at[n] = knobs[n].values[std::size_t(place)];
        const bool may_be = std::all_of(decided[n].begin(), decided[n].end(),
                                        [](const Constraint *constraint) { return constraint->required.value() == 1; });
        if (!may_be) continue;
        point.push_back(place);
        find_legal(point);
        point.pop_back();
    }
}

// Values that are in no legal point would be steps to nowhere.
void Space::Parts::leave_out_values() {
    for (std::size_t n = 0; n < knobs.size(); n++) {
        std::vector<int> place(knobs[n].values.size(), -1), kept;
        for (const Point &point : legal) place[std::size_t(point[n])] = 0;
        for (std::size_t v = 0; v < place.size(); v++) {
            if (place[v] < 0) continue;
            place[v] = int(kept.size());
            kept.push_back(knobs[n].values[v]);
        }
        for (Point &point : legal) point[n] = place[std::size_t(point[n])];
        knobs[n].values = kept;
    }
}

void Space::Parts::set(const Numbers &numbers) const {
    for (std::size_t n = 0; n < knobs.size(); n++) {
        const auto given = numbers.find(knobs[n].name);
        *at[n] = given != numbers.end() ? given->second : *otherwise[n];
    }
}

const Constraint *Space::Parts::broken() const {
    for (const Constraint &constraint : constraints)
        if (constraint.required.value() != 1) return &constraint;
    return nullptr;
}

Numbers Space::Parts::numbers_of(const Point &point) const {
    Numbers numbers;
    for (std::size_t n = 0; n < knobs.size(); n++) numbers[knobs[n].name] = knobs[n].values[std::size_t(point[n])];
    return numbers;
}

Space::Space(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Space::~Space() = default;
Space::Space(Space &&) noexcept = default;

Space Space::read(const std::string &file, const std::string &op, const std::string &schedule, const std::string &shape_class,
                  const Facts &facts) {
    const SpaceLines lines = read_space_lines(file, op, schedule, shape_class);
    auto parts = std::make_unique<Parts>();
    parts->file = lines.file, parts->schedule = schedule;
    parts->values = {{"lanes", facts.lanes},
                     {"registers", facts.registers},
                     {"element_bytes", facts.element_bytes},
                     {"sum_bytes", facts.sum_bytes},
                     {"l1_bytes", facts.l1_bytes},
                     {"l2_bytes", facts.l2_bytes},
                     {"head_dim", facts.head_dim},
                     {"channels", facts.head_dim == 0 ? 128 : facts.head_dim},
                     {"bf16", facts.bf16}};
    parts->read_knobs(lines.knobs);
    parts->read_constraints(lines.constraints);
    Point point;
    parts->find_legal(point);
    if (parts->legal.empty())
        throw InputError(parts->file, schedule + (shape_class.empty() ? "" : " " + shape_class) + ": no point is legal");
    parts->leave_out_values();
    return Space(std::move(parts));
}

const std::vector<Knob> &Space::knobs() const { return parts_->knobs; }

std::string Space::why_not(const Numbers &numbers) const {
    const Parts &p = *parts_;
    for (const auto &[name, value] : numbers)
        if (std::none_of(p.knobs.begin(), p.knobs.end(), [&](const Knob &knob) { return knob.name == name; }))
            return name + " is no number of " + p.schedule;
    for (std::size_t n = 0; n < p.knobs.size(); n++)
        if (!numbers.contains(p.knobs[n].name) && !p.otherwise[n]) return p.knobs[n].name + " is missing";
    p.set(numbers);
    if (const Constraint *constraint = p.broken()) return constraint->broken.text();
    for (std::size_t n = 0; n < p.knobs.size(); n++) {
        const std::vector<int> &values = p.knobs[n].values;
        if (std::binary_search(values.begin(), values.end(), int(*p.at[n]))) continue;
        std::string list;
        for (const int value : values) list += (list.empty() ? "" : ", ") + std::to_string(value);
        return p.knobs[n].name + " " + std::to_string(int(*p.at[n])) + " is none of " + list;
    }
    return "";
}

Numbers Space::Parts::closest(const Numbers &numbers, const std::vector<Point> &points) const {
    std::vector<std::vector<double>> distance(knobs.size());
    for (std::size_t n = 0; n < knobs.size(); n++) {
        const auto given = numbers.find(knobs[n].name);
        const std::optional<int> from = given != numbers.end() ? std::optional(given->second) : otherwise[n];
        for (const int value : knobs[n].values) distance[n].push_back(from ? far(value, *from) : 0);
    }
    const Point *best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Point &point : points) {
        double all = 0;
        for (std::size_t n = 0; n < knobs.size(); n++) all += distance[n][std::size_t(point[n])];
        if (all < least - 1e-9) least = all, best = &point;
    }
    return numbers_of(*best);
}

Numbers Space::completed(const Numbers &numbers) const {
    Numbers all = numbers;
    for (std::size_t n = 0; n < parts_->knobs.size(); n++)
        if (parts_->otherwise[n]) all.emplace(parts_->knobs[n].name, *parts_->otherwise[n]);
    return all;
}

Numbers Space::nearest(const Numbers &numbers) const { return parts_->closest(numbers, parts_->legal); }

std::optional<Point> Space::Parts::point_of(const Numbers &numbers) const {
    Point point;
    for (std::size_t n = 0; n < knobs.size(); n++) {
        const auto given = numbers.find(knobs[n].name);
        const auto place = std::lower_bound(knobs[n].values.begin(), knobs[n].values.end(),
                                            given != numbers.end() ? given->second : otherwise[n].value_or(-1));
        if (place == knobs[n].values.end()) return {};
        point.push_back(int(place - knobs[n].values.begin()));
    }
    return std::binary_search(legal.begin(), legal.end(), point) ? std::optional(point) : std::nullopt;
}

std::vector<Numbers> Space::neighbours(const Numbers &numbers) const {
    const Parts &p = *parts_;
    const Point from = *p.point_of(nearest(numbers));
    std::vector<Point> found;
    for (std::size_t n = 0; n < p.knobs.size(); n++) {
        for (const int step : {-1, 1}) {
            // Of the points with that value the one that takes fewest further steps; it is legal itself if it takes none.
            const Point *best = nullptr;
            int least = std::numeric_limits<int>::max();
            for (const Point &point : p.legal) {
                if (point[n] != from[n] + step) continue;
                int steps = 0;
                for (std::size_t k = 0; k < from.size(); k++) steps += std::abs(point[k] - from[k]);
                if (steps < least) least = steps, best = &point;
            }
            if (best && std::find(found.begin(), found.end(), *best) == found.end()) found.push_back(*best);
        }
    }
    std::vector<Numbers> all;
    for (const Point &point : found) all.push_back(p.numbers_of(point));
    return all;
}

std::vector<Numbers> Space::all() const {
    std::vector<Numbers> all;
    for (const Point &point : parts_->legal) all.push_back(parts_->numbers_of(point));
    return all;
}

std::size_t Space::illegal() const { return parts_->product - parts_->legal.size(); }

}  // namespace attune::tune
