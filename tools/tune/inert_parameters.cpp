// SPDX-License-Identifier: MIT
#include "inert_parameters.h"
#include <set>

namespace attune::tune {

std::vector<std::string> inert_parameters(const Space &space, const std::map<Parameters, std::string> &codes) {
    std::vector<std::string> inert;
    for (const SpaceParameter &parameter : space.parameters()) {
        bool compared = false, alive = false;
        std::map<Parameters, std::set<std::string>> groups;  // codes of candidates that differ in this parameter alone
        for (const auto &[parameters, code] : codes) {
            Parameters others = parameters;
            others.erase(parameter.name);
            auto &group = groups[others];
            compared = compared || !group.empty();
            group.insert(code);
            alive = alive || group.size() > 1;
        }
        if (compared && !alive) inert.push_back(parameter.name);
    }
    return inert;
}

}  // namespace attune::tune
