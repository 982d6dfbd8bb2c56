// SPDX-License-Identifier: MIT
// schedules/<op>/costs/<target>.json: cost coefficients with their provenance (cmake/attune_costs.cmake).
#pragma once
#include <attune/detail/cost.h>
#include <attune/variants.h>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>

namespace attune::dispatch {

struct CostRecord {
    detail::CostCoefficients cost{};
    double error = 0;        // median of |predicted / measured - 1|
    std::size_t shapes = 0;  // to which it was fitted
    std::string shape;       // one that the variant computes quickest, its time there and the share of the peak
    double us = 0, percent_of_peak = 0;
    std::string parameters = "";  // hash of the variant's parameters then
};

class CostsFile {
public:
    // Reads the file; where there is none, one without records. Throws InputError where it is no such file.
    CostsFile(std::string file, const std::string &op, const std::string &target);
    // The same of a stream, which messages call `file`.
    CostsFile(std::istream &, std::string file, const std::string &op, const std::string &target);
    // "f32/64/prefill/long/plain": type, head size, schedule, class and kind, as CMake knows a variant.
    static std::string key_of(const VariantInfo &);
    bool has(const std::string &key) const;
    // Whether a record is of a variant with other parameters; false where it does not say.
    bool is_of_others(const std::string &key, const std::string &parameters) const;
    void set(const std::string &key, const CostRecord &);
    void set_provenance(const nlohmann::ordered_json &);
    void write() const;  // beside the file, and renamed
    std::string text() const;

private:
    void read(std::istream &);

    std::string file_;
    nlohmann::ordered_json json_;
};

}  // namespace attune::dispatch
