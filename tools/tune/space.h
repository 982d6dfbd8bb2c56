// SPDX-License-Identifier: MIT
// What a schedule's parameters may be: schedules/<op>/space.json (the file's form: space_file.h).
#pragma once
#include "parameters.h"
#include <memory>
#include <string>
#include <vector>

namespace attune::tune {

// What the constraints of a space may name beside its parameters.
struct Facts {
    int lanes;               // elements of a vector of the type in which sums are kept
    int registers;           // vector registers
    int element_bytes;       // of the tensors
    int sum_bytes;           // of sums
    int l1_bytes, l2_bytes;  // of this machine, or of the target where it is another's
    int head_dim;            // 0: any
    bool bf16;               // of which products may take pairs
};

struct Caches {
    int l1_bytes, l2_bytes;  // of a core
};
Caches caches_here();

// Of a target (Halide's words for it: schedules/targets.json) and a type as records name it.
Facts facts_of(const std::string &halide_target, const std::string &dtype, int head_dim, const Caches &);

struct SpaceParameter {
    std::string name;
    std::vector<int> values;  // ascending; each of them is in some legal point
    int stage;                // the factored search takes the parameters of one stage together, the stages in this order
};

class Space {
public:
    // The space of a schedule and class in the file; throws InputError that says what is wrong with it and where.
    static Space read(const std::string &file, const std::string &op, const std::string &schedule,
                      const std::string &shape_class, const Facts &);
    ~Space();
    Space(Space &&) noexcept;

    const std::vector<SpaceParameter> &parameters() const;
    // Empty if the parameters are legal, else what they break, in the words of the file ("accumulators: 34 of 28 registers").
    std::string why_not(const Parameters &) const;
    // The parameters, with the defaults of those that are not given: what they mean, whether it is legal or not.
    Parameters completed(const Parameters &) const;
    // The legal point that is nearest to parameters of elsewhere (another target, another class), which may lack parameters or
    // name values that are none here. That of legal parameters is themselves, completed by the defaults of what they lack:
    // points of a space can be compared.
    Parameters nearest(const Parameters &) const;
    // Every legal point that differs in one parameter by one step; where that is illegal, with the smallest change of others
    // that makes it legal. Of parameters outside of the space: those of the nearest point.
    std::vector<Parameters> neighbours(const Parameters &) const;
    std::vector<Parameters> all() const;  // every legal point, in the order of the parameters
    std::size_t illegal() const;          // how many points of the full product the constraints leave out

private:
    struct Parts;
    explicit Space(std::unique_ptr<Parts>);
    std::unique_ptr<Parts> parts_;
};

}  // namespace attune::tune
