// SPDX-License-Identifier: MIT
#include "cells.h"
#include "bench/cases/case.h"
#include "decision.h"
#include "parameters_file.h"
#include "tools/error.h"
#include <algorithm>
#include <fnmatch.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace attune::tune {
namespace {

Cell cell_of(const VariantInfo &v) {
    Cell cell;
    cell.variant = v.name, cell.op = v.op, cell.dtype = name_of(v.dtype), cell.target = v.target, cell.schedule = v.schedule;
    cell.shape_class = v.shape_class, cell.kind = v.kind, cell.head_dim = v.head_dim;
    cell.shipped = parse_parameters(std::string(v.parameters));
    return cell;
}

nlohmann::json read_targets(const std::string &schedules) {
    const std::string file = schedules + "/targets.json";
    std::ifstream in(file);
    nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
    if (!json.contains("targets")) throw program::MachineError(file, "cannot be read");
    return json["targets"];
}

// Adds a shape to the cell of a variant.
void add_shape(std::vector<Cell> &cells, const VariantInfo &variant, const WeightedShape &shape, const Subject &subject) {
    auto cell = std::find_if(cells.begin(), cells.end(), [&](const Cell &c) { return c.variant == variant.name; });
    if (cell == cells.end()) {
        cell = cells.insert(cells.end(), cell_of(variant));
        cell->like = subject.like, cell->user = subject.user;
    }
    cell->shapes.push_back(shape);
}

// Cells of the variants among `all` that match the glob, with every shape that they can run.
std::vector<Cell> forced_cells(const Subject &subject, const std::string &variant_glob, const std::vector<VariantInfo> &all,
                               Context &context) {
    std::vector<Cell> cells;
    for (const VariantInfo &v : all) {
        const std::string name(v.name);
        if (v.op != subject.op || v.parameters.empty() || fnmatch(variant_glob.c_str(), name.c_str(), 0) != 0) continue;
        for (const WeightedShape &one : subject.shapes)
            if (one.shape.takes(v, all) && make_case(subject.op, one.shape, subject.user)->call(context, name).ok())
                add_shape(cells, v, one, subject);
    }
    return cells;
}

}  // namespace

std::vector<Cell> cells_of(Subject &subject, const std::string &variant_glob, Context &context) {
    const std::string &op = subject.op;
    const std::vector<VariantInfo> all = variants();
    std::vector<Cell> cells;
    for (const WeightedShape &one : subject.shapes) {
        const bench::Shape &shape = one.shape;
        const std::string label = shape.op + " " + shape.label();
        const Status status = make_case(op, shape, subject.user)->call(context, "");
        if (!status.ok()) {
            subject.left_out.push_back(label + ": " + status.message());
            continue;
        }
        const std::string name = context.last_variant();
        const auto variant = std::find_if(all.begin(), all.end(), [&](const VariantInfo &v) { return v.name == name; });
        if (variant == all.end()) {
            subject.left_out.push_back(label + ": no kernel runs");
            continue;
        }
        if (variant->op != op || fnmatch(variant_glob.c_str(), name.c_str(), 0) != 0) continue;
        if (variant->parameters.empty()) {
            subject.left_out.push_back(label + ": " + name + " has no parameters");
            continue;
        }
        add_shape(cells, *variant, one, subject);
    }
    if (cells.empty() && variant_glob != "*") cells = forced_cells(subject, variant_glob, all, context);
    if (!cells.empty()) return cells;
    throw program::InputError(op, subject.left_out.empty() ? "no shape of " + subject.file + " is run by a variant of " + op +
                                                                 " that matches " + variant_glob
                                                           : subject.left_out.front());
}

std::vector<std::string> chain_of(const std::string &schedules, const std::string &target) {
    const nlohmann::json targets = read_targets(schedules);
    if (!targets.contains(target)) throw program::InputError("--from", "no target " + target + " in schedules/targets.json");
    std::vector<std::string> chain = {target};
    for (const auto &fallback : targets[target]["fallback"]) chain.push_back(fallback);
    return chain;
}

Parameters parameters_in(const std::string &schedules, const Cell &cell, const std::string &target) {
    Parameters nearest;
    for (const std::string &from : chain_of(schedules, target)) {
        const ParametersFile file(schedules + "/" + cell.like + "/tuned/" + from + ".json", cell.like, from);
        if (const auto exact = file.find(cell)) return *exact;
        const auto near = file.near(cell);
        if (nearest.empty() && !near.empty()) nearest = near.front();
    }
    return nearest;
}

std::vector<Parameters> seeds_of(const std::string &schedules, const Cell &cell, const std::vector<Record> &records,
                                 const RecordKey &key) {
    std::vector<Parameters> seeds;
    const auto add = [&](const Parameters &parameters) {
        if (std::find(seeds.begin(), seeds.end(), parameters) == seeds.end()) seeds.push_back(parameters);
    };
    const auto add_from = [&](const std::string &target) {
        const ParametersFile file(schedules + "/" + cell.like + "/tuned/" + target + ".json", cell.like, target);
        const auto near = file.near(cell);
        for (std::size_t n = 0; n < std::min<std::size_t>(near.size(), 3); n++) add(near[n]);
    };
    const std::vector<std::string> chain = chain_of(schedules, cell.target);
    for (const std::string &target : chain) add_from(target);
    const nlohmann::json targets = read_targets(schedules);
    for (const auto &[target, of] : targets.items())
        if (std::find(chain.begin(), chain.end(), target) == chain.end()) add_from(target);

    std::vector<std::pair<double, const Record *>> measured;
    for (const Record &r : records) {
        const bool of_op = r.key.op == key.op || r.key.op == cell.like;
        const bool like = of_op && r.key.dtype == key.dtype && r.key.schedule == key.schedule &&
                          r.key.shape_class == key.shape_class && r.key.head_dim == key.head_dim;
        const bool foreign = r.key.hardware != key.hardware || r.key.algorithm != key.algorithm || r.key.halide != key.halide;
        if (like && foreign && r.verdict == "timed") measured.emplace_back(median(r.ratios), &r);
    }
    std::sort(measured.begin(), measured.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    for (std::size_t n = 0; n < std::min<std::size_t>(measured.size(), 3); n++) add(measured[n].second->parameters);
    return seeds;
}

}  // namespace attune::tune
