// SPDX-License-Identifier: MIT
// The parameters of a schedule: what a candidate of the tuner is, and what a record of schedules/<op>/tuned/*.json holds.
#pragma once
#include <map>
#include <string>

namespace attune::tune {

using Parameters = std::map<std::string, int>;  // by name: kv_block, tile_q...

// "kv_block=64 tile_q=64", as variants() gives them; throws InputError where it is not that.
Parameters parse_parameters(const std::string &text);
std::string text_of(const Parameters &);

}  // namespace attune::tune
