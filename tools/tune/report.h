// What a run of the tuner found: a table, and a picture of the candidates.
#pragma once
#include "setting.h"
#include "tools/outputs.h"
#include <string>
#include <vector>

namespace attune::tune {

struct CellReport {
    Cell cell;
    CellResult result;
};

// One row a cell: numbers before and after, the gain with its interval, shares of the peak, what was tried; then each cell
// where tuning did not help, and why.
std::string table_of(const std::vector<CellReport> &);
// One panel a cell: each candidate by when it was tried and how quick it is, those rejected below, the chosen one marked.
std::string picture_of(const std::vector<CellReport> &);

// An SVG of elements on white; and into the file of --picture, which was added before the work.
std::string svg_document(int width, int height, const std::string &elements);
void write_picture(program::Outputs &, const std::string &svg);

}  // namespace attune::tune
