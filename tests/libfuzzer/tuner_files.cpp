// SPDX-License-Identifier: MIT
// Bytes as one of the files that the tuner reads: parameters, cost coefficients, records of measurements, or shapes; as
// parameters in a text; or as an expression of a search space. Read, or refused by an error. The last byte, '0' to '5',
// chooses.
#include "tests/libfuzzer/file_of_bytes.h"
#include "tools/dispatch/costs_file.h"
#include "tools/error.h"
#include "tools/tune/expression.h"
#include "tools/tune/parameters_file.h"
#include "tools/tune/records.h"
#include "tools/tune/shapes_file.h"
#include <sstream>

namespace {
using namespace attune::tune;

void read_parameters(std::istream &in) {
    const ParametersFile parameters(in, "bytes", "sdpa", "generic");
    parameters.find({});
    parameters.near({});
    parameters.text();
}
void read_costs(std::istream &in) {
    const attune::dispatch::CostsFile costs(in, "bytes", "sdpa", "generic");
    costs.has("f32/64/prefill/long/plain");
    costs.text();
}
void evaluate(const std::string &text) {
    Values values = {{"tile_q", 64}, {"lanes", 16}, {"registers", 32}};
    try {
        const Expression expression(text, values);
        expression.names();
        expression.value();
    } catch (const attune::program::InputError &) {
        throw;
    } catch (const std::runtime_error &) {}
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t count) {
    if (count-- == 0) return 0;
    const std::string text(reinterpret_cast<const char *>(bytes), count);
    std::istringstream in(text);
    try {
        switch (bytes[count] % 6) {
        case 0: read_parameters(in); break;
        case 1: read_costs(in); break;
        case 2:
            for (const Record &record : read_records(in, "bytes")) json_of(record);
            break;
        case 3: parse_parameters(text); break;
        case 4: evaluate(text); break;
        default: {
            const FileOfBytes file(bytes, count);
            for (const WeightedShape &s : read_weighted_shapes(file.path())) json_of(s.shape);
        }
        }
    } catch (const attune::program::InputError &) {}
    return 0;
}
