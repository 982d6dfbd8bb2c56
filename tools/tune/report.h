// SPDX-License-Identifier: MIT
// What a run of the tuner found: a table, and a picture of the candidates.
#pragma once
#include "setting.h"
#include "tools/files/outputs.h"
#include <string>
#include <vector>

namespace attune::tune {

// What tuning a cell came to. The search may have begun elsewhere than at the parameters in use; these are left only for
// parameters that are better than they are, whatever the search found them better than.
struct CellReport {
    Cell cell;
    CellResult result;                // of the search
    Parameters in_use;                // what runs now, in full
    std::string began;                // the target whose parameters the search began from, where it is named
    std::optional<Gain> over_in_use;  // of what was chosen, where the search did not measure it

    // Over the parameters in use, of the parameters that take their place; none where they stay.
    std::optional<Gain> gain() const;
    const Parameters &now() const { return gain() ? result.chosen : in_use; }
    double seconds_in_use() const;  // of a call on the first shape, the best; 0 where it is not known
};

// "best of 12 candidates, 1.046 (1.035 to 1.056) of the speed of kv_block=64 ...": where the new parameters come from.
std::string how_found(const CellReport &);
// "1.046 (1.035 to 1.056)"
std::string text_of(const Gain &);

// One row a cell: parameters before and after, the gain with its interval, shares of the peak, what was tried; then each cell
// where tuning did not help, and why.
std::string table_of(const std::vector<CellReport> &);
// One panel a cell: each candidate by when it was tried and how quick it is, those rejected below, the chosen one marked.
std::string picture_of(const std::vector<CellReport> &);

// An SVG of elements on white; and into the file of --picture, which was added before the work.
std::string svg_document(int width, int height, const std::string &elements);
void write_picture(program::Outputs &, const std::string &svg);

}  // namespace attune::tune
