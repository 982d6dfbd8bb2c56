// attune doctor: what this machine has, and what it lacks.
#include "commands.h"
#include <algorithm>
#include <attune/context.h>
#include <attune/variants.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

namespace attune::program {
namespace fs = std::filesystem;
namespace {

// The value of the first line "name : value" in a file such as /proc/cpuinfo; empty if there is none.
std::string field_of(const char *path, std::initializer_list<std::string_view> names) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        std::string name = line.substr(0, colon);
        name.erase(name.find_last_not_of(" \t") + 1);
        if (std::find(names.begin(), names.end(), name) == names.end()) continue;
        const std::size_t first = line.find_first_not_of(" \t", colon + 1);
        return first == std::string::npos ? "" : line.substr(first);
    }
    return "";
}

// Those that decide which target's kernels run.
std::string features() {
    static constexpr std::string_view wanted[] = {
        "sse4_2",   "avx",      "f16c",        "fma",         "avx2",        "bmi1",
        "bmi2",     "abm",      "movbe",       "avx512f",     "avx512bw",    "avx512cd",
        "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx512_vp2intersect",
        "amx_tile", "amx_bf16", "amx_int8",    "asimd",       "sve",         "sve2",
        "bf16"};
    std::istringstream flags(field_of("/proc/cpuinfo", {"flags", "Features"}));
    std::vector<std::string> found;
    for (std::string flag; flags >> flag;) found.push_back(flag);
    std::string out;
    for (std::string_view name : wanted)
        if (std::find(found.begin(), found.end(), name) != found.end()) out += (out.empty() ? "" : " ") + std::string(name);
    return out.empty() ? "none known" : out;
}

std::string gpu() {
    std::error_code error;
    for (const fs::directory_entry &entry : fs::directory_iterator("/proc/driver/nvidia/gpus", error)) {
        const std::string model = field_of((entry.path() / "information").c_str(), {"Model"});
        if (!model.empty()) return model;
    }
    return "none found (none is needed)";
}

std::string on_path(const std::string &program) {
    const char *path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const fs::path file = fs::path(folder.empty() ? "." : folder) / program;
        std::error_code error;
        if (fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) return file.string();
    }
    return "";
}

std::string line_of(const std::string &name, const std::string &text) {
    return "  " + name + std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') + text + "\n";
}

struct Tool {
    const char *name, *needed_for, *hint;
};
constexpr Tool build_tools[] = {
    {"c++", "building", "install a C++20 compiler, such as your system's package g++"},
    {"cmake", "building, 3.28 or later", "scripts/provision puts one into build/venv"},
    {"ninja", "building", "scripts/provision puts one into build/venv"},
    {"python3", "building and tests", "install your system's packages python3 and python3-venv"},
    {"nvcc", "CUDA kernels, optional", "comes with the CUDA toolkit"},
    {"ptxas", "checks of CUDA kernels, optional", "comes with the CUDA toolkit"},
};

}  // namespace

std::string doctor_text() {
    std::string out = "machine\n";
    struct utsname system {};
    const bool known = ::uname(&system) == 0;
    const std::string model = field_of("/proc/cpuinfo", {"model name", "Model", "CPU part"});
    out += line_of("cpu", model.empty() ? "unknown" : model);
    if (known) out += line_of("system", std::string(system.sysname) + " " + system.machine);
    out += line_of("features", features());
    const Context context;
    out += line_of("threads", std::to_string(context.threads()) + " by default, " +
                                  std::to_string(std::thread::hardware_concurrency()) + " in hardware");
    out += line_of("gpu", gpu());

    const std::vector<VariantInfo> all = variants();
    out += "\ntargets, the most specific first\n";
    for (const TargetInfo &target : targets()) {
        const auto linked =
            std::count_if(all.begin(), all.end(), [&](const VariantInfo &v) { return v.target == target.name; });
        out += line_of(std::string(target.name), (target.missing.empty() ? "usable" : "not usable, lacks " + target.missing) +
                                                     "; " + std::to_string(linked) + (linked == 1 ? " variant" : " variants") +
                                                     " linked in");
    }

    const auto here = std::count_if(all.begin(), all.end(), [](const VariantInfo &v) { return v.runs_here; });
    out += "\nvariants\n";
    out += line_of("linked in", std::to_string(all.size()));
    out += line_of("run here", std::to_string(here) + (here ? "" : "; build the preset native on this machine"));
    if (const std::string missing = missing_variants(); !missing.empty()) out += line_of("warning", missing);
    for (const char *name : {"ATTUNE_FORCE_VARIANT", "ATTUNE_VERBOSE"})
        if (const char *value = std::getenv(name)) out += line_of("set", std::string(name) + "=" + value);
    if (!context.status().ok()) out += line_of("problem", context.status().message());

    out += "\ntools for building and for retuning (running needs none of them)\n";
    for (const Tool &tool : build_tools) {
        const std::string found = on_path(tool.name);
        out += line_of(tool.name,
                       (found.empty() ? std::string("not on PATH; ") + tool.hint : found) + " (" + tool.needed_for + ")");
    }
    return out;
}

}  // namespace attune::program
