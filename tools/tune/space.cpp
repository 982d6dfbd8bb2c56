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

using Point = std::vector<int>;  // index of each parameter's value

struct Constraint {
    Expression required;
    Words broken;
};

// Distance of two numbers, in doublings. 0 stands for "none" or "all" and is next to 1.
double far(int a, int b) { return std::abs(std::log2(std::max(a, 0) + 0.5) - std::log2(std::max(b, 0) + 0.5)); }

}  // namespace

struct Space::Parts {
    std::string file, schedule;
    Values values;
    std::vector<SpaceParameter> space_parameters;
    std::vector<std::optional<int>> otherwise;
    std::vector<Constraint> constraints;
    std::vector<std::vector<const Constraint *>> decided;  // by this parameter, when earlier ones have values
    std::vector<double *> at;                              // the values of the parameters
    std::vector<Point> legal;
    std::size_t product = 1;

    void read_parameters(const std::vector<ParameterLines> &);
    void read_constraints(const std::vector<std::pair<std::string, std::string>> &);
    void find_legal(Point &);
    void leave_out_values();
    void set(const Parameters &) const;
    const Constraint *broken() const;
    Parameters parameters_of(const Point &) const;
    std::optional<Point> point_of(const Parameters &) const;
    Parameters closest(const Parameters &, const std::vector<Point> &) const;
};

void Space::Parts::read_parameters(const std::vector<ParameterLines> &lines) {
    for (const ParameterLines &line : lines) {
        const std::string where = "parameters." + line.name + ": ";
        SpaceParameter parameter{line.name, {}, line.stage};
        for (const std::string &text : line.values) {
            double value = 0;
            try {
                value = Expression(text, values).value();
            } catch (const std::runtime_error &error) {
                throw InputError(file, where + error.what());
            }
            if (value != std::floor(value) || value < 0 || value > 1 << 30)
                throw InputError(file, where + "\"" + text + "\" is no whole number here");
            parameter.values.push_back(int(value));
        }
        std::sort(parameter.values.begin(), parameter.values.end());
        parameter.values.erase(std::unique(parameter.values.begin(), parameter.values.end()), parameter.values.end());
        if (parameter.stage < 1) throw InputError(file, where + "stages count from 1");
        if (values.contains(parameter.name)) throw InputError(file, where + "is the name of a fact");
        product *= parameter.values.size();
        space_parameters.push_back(parameter);
        otherwise.push_back(line.otherwise);
    }
    // Legal points are listed, which would take minutes for more points.
    if (constexpr std::size_t most = 2'000'000; product > most)
        throw InputError(file, schedule + ": " + std::to_string(product) + " points, more than " + std::to_string(most));
    for (const SpaceParameter &parameter : space_parameters) values[parameter.name] = parameter.values[0];
    for (const SpaceParameter &parameter : space_parameters) at.push_back(&values[parameter.name]);
}

void Space::Parts::read_constraints(const std::vector<std::pair<std::string, std::string>> &lines) {
    for (const auto &[required, words] : lines) {
        try {
            constraints.push_back({Expression(required, values), Words(words, values)});
        } catch (const std::runtime_error &error) {
            throw InputError(file, "constraints: " + std::string(error.what()));
        }
    }
    decided.resize(space_parameters.size());
    for (const Constraint &constraint : constraints) {
        std::size_t last = 0;
        const auto names = constraint.required.names();
        for (std::size_t n = 0; n < space_parameters.size(); n++)
            if (std::find(names.begin(), names.end(), space_parameters[n].name) != names.end()) last = n;
        decided[last].push_back(&constraint);
    }
}

void Space::Parts::find_legal(Point &point) {
    const std::size_t n = point.size();
    if (n == space_parameters.size()) {
        legal.push_back(point);
        return;
    }
    for (int place = 0; place < int(space_parameters[n].values.size()); place++) {
        *at[n] = space_parameters[n].values[std::size_t(place)];
        const bool may_be = std::all_of(decided[n].begin(), decided[n].end(),
                                        [](const Constraint *constraint) { return constraint->required.value() == 1; });
        if (!may_be) continue;
        point.push_back(place);
        find_legal(point);
        point.pop_back();
    }
}

// Leaves out values that are in no legal point: they would be steps to nowhere.
void Space::Parts::leave_out_values() {
    for (std::size_t n = 0; n < space_parameters.size(); n++) {
        std::vector<int> place(space_parameters[n].values.size(), -1), kept;
        for (const Point &point : legal) place[std::size_t(point[n])] = 0;
        for (std::size_t v = 0; v < place.size(); v++) {
            if (place[v] < 0) continue;
            place[v] = int(kept.size());
            kept.push_back(space_parameters[n].values[v]);
        }
        for (Point &point : legal) point[n] = place[std::size_t(point[n])];
        space_parameters[n].values = kept;
    }
}

void Space::Parts::set(const Parameters &parameters) const {
    for (std::size_t n = 0; n < space_parameters.size(); n++) {
        const auto given = parameters.find(space_parameters[n].name);
        *at[n] = given != parameters.end() ? given->second : *otherwise[n];
    }
}

const Constraint *Space::Parts::broken() const {
    for (const Constraint &constraint : constraints)
        if (constraint.required.value() != 1) return &constraint;
    return nullptr;
}

Parameters Space::Parts::parameters_of(const Point &point) const {
    Parameters parameters;
    for (std::size_t n = 0; n < space_parameters.size(); n++)
        parameters[space_parameters[n].name] = space_parameters[n].values[std::size_t(point[n])];
    return parameters;
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
    parts->read_parameters(lines.parameters);
    parts->read_constraints(lines.constraints);
    Point point;
    parts->find_legal(point);
    if (parts->legal.empty())
        throw InputError(parts->file, schedule + (shape_class.empty() ? "" : " " + shape_class) + ": no point is legal");
    parts->leave_out_values();
    return Space(std::move(parts));
}

const std::vector<SpaceParameter> &Space::parameters() const { return parts_->space_parameters; }

std::string Space::why_not(const Parameters &parameters) const {
    const Parts &p = *parts_;
    for (const auto &[name, value] : parameters)
        if (std::none_of(p.space_parameters.begin(), p.space_parameters.end(),
                         [&](const SpaceParameter &parameter) { return parameter.name == name; }))
            return name + " is no parameter of " + p.schedule;
    for (std::size_t n = 0; n < p.space_parameters.size(); n++)
        if (!parameters.contains(p.space_parameters[n].name) && !p.otherwise[n])
            return p.space_parameters[n].name + " is missing";
    p.set(parameters);
    if (const Constraint *constraint = p.broken()) return constraint->broken.text();
    for (std::size_t n = 0; n < p.space_parameters.size(); n++) {
        const std::vector<int> &values = p.space_parameters[n].values;
        if (std::binary_search(values.begin(), values.end(), int(*p.at[n]))) continue;
        std::string list;
        for (const int value : values) list += (list.empty() ? "" : ", ") + std::to_string(value);
        return p.space_parameters[n].name + " " + std::to_string(int(*p.at[n])) + " is none of " + list;
    }
    return "";
}

Parameters Space::Parts::closest(const Parameters &parameters, const std::vector<Point> &points) const {
    std::vector<std::vector<double>> distance(space_parameters.size());
    for (std::size_t n = 0; n < space_parameters.size(); n++) {
        const auto given = parameters.find(space_parameters[n].name);
        const std::optional<int> from = given != parameters.end() ? std::optional(given->second) : otherwise[n];
        for (const int value : space_parameters[n].values) distance[n].push_back(from ? far(value, *from) : 0);
    }
    const Point *best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Point &point : points) {
        double all = 0;
        for (std::size_t n = 0; n < space_parameters.size(); n++) all += distance[n][std::size_t(point[n])];
        if (all < least - 1e-9) least = all, best = &point;
    }
    return parameters_of(*best);
}

Parameters Space::completed(const Parameters &parameters) const {
    Parameters all = parameters;
    for (std::size_t n = 0; n < parts_->space_parameters.size(); n++)
        if (parts_->otherwise[n]) all.emplace(parts_->space_parameters[n].name, *parts_->otherwise[n]);
    return all;
}

Parameters Space::nearest(const Parameters &parameters) const { return parts_->closest(parameters, parts_->legal); }

std::optional<Point> Space::Parts::point_of(const Parameters &parameters) const {
    Point point;
    for (std::size_t n = 0; n < space_parameters.size(); n++) {
        const auto given = parameters.find(space_parameters[n].name);
        const auto place = std::lower_bound(space_parameters[n].values.begin(), space_parameters[n].values.end(),
                                            given != parameters.end() ? given->second : otherwise[n].value_or(-1));
        if (place == space_parameters[n].values.end()) return {};
        point.push_back(int(place - space_parameters[n].values.begin()));
    }
    return std::binary_search(legal.begin(), legal.end(), point) ? std::optional(point) : std::nullopt;
}

std::vector<Parameters> Space::neighbours(const Parameters &parameters) const {
    const Parts &p = *parts_;
    const Point from = *p.point_of(nearest(parameters));
    std::vector<Point> found;
    for (std::size_t n = 0; n < p.space_parameters.size(); n++) {
        for (const int step : {-1, 1}) {
            // The point with that value that takes fewest further steps; none if it is legal itself.
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
    std::vector<Parameters> all;
    for (const Point &point : found) all.push_back(p.parameters_of(point));
    return all;
}

std::vector<Parameters> Space::all() const {
    std::vector<Parameters> all;
    for (const Point &point : parts_->legal) all.push_back(parts_->parameters_of(point));
    return all;
}

std::size_t Space::illegal() const { return parts_->product - parts_->legal.size(); }

}  // namespace attune::tune
