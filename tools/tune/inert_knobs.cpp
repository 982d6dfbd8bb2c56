// SPDX-License-Identifier: MIT
#include "inert_knobs.h"
#include <set>

namespace attune::tune {

std::vector<std::string> inert_knobs(const Space &space, const std::map<Numbers, std::string> &codes) {
    std::vector<std::string> inert;
    for (const Knob &knob : space.knobs()) {
        bool compared = false, alive = false;
        std::map<Numbers, std::set<std::string>> groups;  // codes of numbers that are alike but for the knob
        for (const auto &[numbers, code] : codes) {
            Numbers others = numbers;
            others.erase(knob.name);
            auto &group = groups[others];
            compared = compared || !group.empty();
            group.insert(code);
            alive = alive || group.size() > 1;
        }
        if (compared && !alive) inert.push_back(knob.name);
    }
    return inert;
}

}  // namespace attune::tune
