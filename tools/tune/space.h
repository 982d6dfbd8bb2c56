// SPDX-License-Identifier: MIT
// Legal values of a schedule's parameters: schedules/<op>/space.json (form of the file: space_file.h).
#pragma once
#include "parameters.h"
#include <memory>
#include <string>
#include <vector>

namespace attune::tune {

// Facts that the constraints of a space may name beside its parameters.
struct Facts {
    int lanes;               // elements of the sum type in a vector
    int registers;           // vector registers
    int element_bytes;       // of the tensors' type
    int sum_bytes;           // of the sum type
    int l1_bytes, l2_bytes;  // of this machine, or of a foreign target
    int head_dim;            // 0: any
    bool bf16;               // tensors are bf16, with products of pairs
};

struct Caches {
    int l1_bytes, l2_bytes;  // per core
};
Caches caches_here();

// Facts of a target (in Halide's words: schedules/targets.json) and a type as records name it.
Facts facts_of(const std::string &halide_target, const std::string &dtype, int head_dim, const Caches &);

struct SpaceParameter {
    std::string name;
    std::vector<int> values;  // ascending; each is in some legal point
    int stage;                // the factored search takes the parameters of one stage together, the stages in this order
};

class Space {
public:
    // The space of a schedule and class in the file; throws InputError with the fault and its place.
    static Space read(const std::string &file, const std::string &op, const std::string &schedule,
                      const std::string &shape_class, const Facts &);
    ~Space();
    Space(Space &&) noexcept;

    const std::vector<SpaceParameter> &parameters() const;
    // The constraint that the parameters break, in the words of the file ("accumulators: 34 of 28 registers"); empty if legal.
    std::string why_not(const Parameters &) const;
    // The parameters with defaults for missing ones, legal or not.
    Parameters completed(const Parameters &) const;
    // The legal point nearest to parameters from elsewhere (another target, another class), which may lack parameters or have
    // values that are not in this space. Legal parameters map to themselves, completed, so that points can be compared.
    Parameters nearest(const Parameters &) const;
    // Every legal point that differs in one parameter by one step; where that is illegal, with the smallest change of others
    // that makes it legal. For parameters outside of the space: the neighbours of the nearest point.
    std::vector<Parameters> neighbours(const Parameters &) const;
    std::vector<Parameters> all() const;  // every legal point, in the order of the parameters
    std::size_t illegal() const;          // points of the full product that the constraints exclude

private:
    struct Parts;
    explicit Space(std::unique_ptr<Parts>);
    std::unique_ptr<Parts> parts_;
};

}  // namespace attune::tune
