// The commands of the program. Each throws InputError or MachineError; main() reports them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace attune::program {

// Arguments of `attune run sdpa`, as given. Files are .npy where nothing else is said.
struct RunSdpaArguments {
    std::string query, key, value, out;
    std::optional<std::string> lse, weights, heatmap;   // outputs; heatmap is SVG
    std::vector<std::string> labels_query, labels_key;  // text files: one, or one for each batch entry
    std::optional<std::string> scale, causal, offset, window, valid_lens, dtype, threads, variant;
};
void run_sdpa(const RunSdpaArguments &);

std::string variants_text();
std::string variants_json();
std::string doctor_text();

}  // namespace attune::program
