// SPDX-License-Identifier: MIT
// Report of a run of the tuner: a table, and a picture of the candidates.
#pragma once
#include "setting.h"
#include "tools/files/outputs.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

// Result of tuning a cell. The search may have begun at other parameters than those in use; these are replaced only by
// parameters that are better than they are, whatever baseline the search had.
struct CellReport {
    Cell cell;
    CellResult result;                // of the search
    Parameters in_use;                // all parameters in use
    std::string began;                // target whose parameters the search began at, if named
    std::optional<Gain> over_in_use;  // gain of the choice over these, if measured apart from the search

    // Gain of the replacing parameters over those in use; none where these stay.
    std::optional<Gain> gain() const;
    const Parameters &now() const { return gain() ? result.chosen : in_use; }
    double seconds_in_use() const;  // best time of a call on the first shape; 0: not known
};

// Provenance of new parameters: "best of 12 candidates, 1.046 (1.035 to 1.056) of the speed of kv_block=64 ...".
std::string how_found(const CellReport &);
// Figures of new parameters for their provenance: the first shape, `us` of a call, and `percent_of_peak` where a peak is known.
nlohmann::ordered_json figures_of(const CellReport &);
// "1.046 (1.035 to 1.056)"
std::string text_of(const Gain &);

// Table with one row per cell: parameters before and after, the gain with its interval, shares of the peak, number of trials;
// then each cell that tuning did not improve, and why.
std::string table_of(const std::vector<CellReport> &);
// Picture with one panel per cell: each candidate by time of trial and speed, rejected ones below, the chosen one marked.
std::string picture_of(const std::vector<CellReport> &);

// An SVG of elements on white; written to the file of --picture, which was added before the work.
std::string svg_document(int width, int height, const std::string &elements);
void write_picture(program::Outputs &, const std::string &svg);

}  // namespace attune::tune
