// SPDX-License-Identifier: MIT
// Bytes as each of the files that the tuner reads: parameters, cost coefficients, and records of measurements; and as
// parameters in a text. Read, or refused by an InputError.
#include "tests/libfuzzer/file_of_bytes.h"
#include "tools/dispatch/costs_file.h"
#include "tools/error.h"
#include "tools/tune/parameters_file.h"
#include "tools/tune/records.h"

namespace {
template<typename Read> void refused_or(const Read &read) {
    try {
        read();
    } catch (const attune::program::InputError &) {}
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t count) {
    const FileOfBytes file(bytes, count);
    const std::string text(reinterpret_cast<const char *>(bytes), count);
    refused_or([&] {
        const attune::tune::ParametersFile parameters(file.path(), "sdpa", "generic");
        parameters.find({});
        parameters.near({});
        parameters.text();
    });
    refused_or([&] {
        const attune::dispatch::CostsFile costs(file.path(), "sdpa", "generic");
        costs.has("f32/64/prefill/long/plain");
        costs.text();
    });
    refused_or([&] {
        for (const attune::tune::Record &record : attune::tune::read_records(file.path())) attune::tune::json_of(record);
    });
    refused_or([&] { attune::tune::parse_parameters(text); });
    return 0;
}
