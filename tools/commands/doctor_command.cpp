// SPDX-License-Identifier: MIT
// attune doctor: the capabilities of this machine, and what it lacks for the library and its tools.
#include "tools/commands/commands.h"
#include "tools/tune/subprocess.h"
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

// Value of the first line "name : value" in a file such as /proc/cpuinfo; empty if there is none.
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

// CPU features that decide which target's kernels run.
std::string features() {
    static constexpr std::string_view wanted[] = {
        "sse4_2",   "avx",      "f16c",        "fma",         "avx2",        "bmi1",
        "bmi2",     "abm",      "movbe",       "avx512f",     "avx512bw",    "avx512cd",
        "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx512_vp2intersect",
        "amx_tile", "amx_bf16", "amx_int8",    "asimd",       "asimdhp",     "asimddp",
        "i8mm",     "bf16",     "sve",         "sve2"};
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

// The default number of threads of a Context, and its limit.
std::string threads() {
    const DefaultThreads d = default_threads();
    std::ostringstream text;
    text << d.threads << " by default, limited by the " << d.limited_by << "; " << d.processors << " of "
         << std::thread::hardware_concurrency() << " processors allowed, CPU quota ";
    d.cpu_quota > 0 ? text << d.cpu_quota : text << "none";
    return text.str();
}

// Numbers of a version such as 3.28.1 in the first line of a text; empty if there are none.
std::vector<int> version_in(std::string text) {
    std::vector<int> version;
    text.erase(std::min(text.find('\n'), text.size()));
    for (const char *at = text.c_str() + std::min(text.find_first_of("0123456789"), text.size()); *at;) {
        char *end = nullptr;
        version.push_back(static_cast<int>(std::strtol(at, &end, 10)));
        if (*end != '.' || end[1] < '0' || end[1] > '9') break;
        at = end + 1;
    }
    return version;
}
std::string text_of(const std::vector<int> &version) {
    std::string text;
    for (const int n : version) text += (text.empty() ? "" : ".") + std::to_string(n);
    return text;
}

constexpr const char *provision = "scripts/provision puts one into build/venv";

struct Tool {
    const char *name, *needed_for, *hint;
    const char *least_version = "";
};
constexpr Tool build_tools[] = {
    {"c++", "building", "install a C++20 compiler, such as your system's package g++"},
    {"cmake", "building", provision, ATTUNE_LEAST_CMAKE},
    {"ninja", "building", provision},
    {"python3", "building and tests", "install your system's packages python3 and python3-venv"},
    {"nvcc", "CUDA kernels, optional", "comes with the CUDA toolkit"},
    {"ptxas", "checks of CUDA kernels, optional", "comes with the CUDA toolkit"},
};

// Path and version of a tool, and whether the version suffices.
std::string found_of(const Tool &tool) {
    const std::string file = on_path(tool.name), needed_for = std::string(" (") + tool.needed_for + ")";
    if (file.empty()) return std::string("not on PATH; ") + tool.hint + needed_for;
    const std::vector<int> least = version_in(tool.least_version);
    if (least.empty()) return file + needed_for;
    const std::vector<int> version = version_in(tune::run({{file, "--version"}, "", 10}).output);
    const std::string known = file + ", version " + (version.empty() ? "unknown" : text_of(version));
    if (version >= least) return known + needed_for;
    return known + ", needed: " + tool.least_version + " or later; " + tool.hint + needed_for;
}

// Halide's CMake package where CMake looks for it: the folder and the version of each.
std::vector<std::pair<fs::path, std::string>> halides() {
    std::vector<fs::path> folders;
    if (const char *given = std::getenv("Halide_DIR")) folders.push_back(given);
    for (const char *name : {"Halide_ROOT", "CMAKE_PREFIX_PATH", "PATH"}) {
        const char *list = std::getenv(name);
        std::istringstream prefixes(list ? list : "");
        for (std::string prefix; std::getline(prefixes, prefix, ':');)
            for (const char *under : {"share", "lib", "lib64"})
                folders.push_back((std::string_view(name) == "PATH" ? fs::path(prefix).parent_path() : fs::path(prefix)) /
                                  under / "cmake" / "Halide");
    }
    std::vector<std::pair<fs::path, std::string>> found;
    for (const fs::path &folder : folders) {
        std::ifstream file(folder / "HalideConfigVersion.cmake");
        for (std::string line; std::getline(file, line);)
            if (line.starts_with("set(PACKAGE_VERSION \"")) {
                found.emplace_back(folder, text_of(version_in(line)));
                break;
            }
    }
    return found;
}

std::string halide() {
    const auto all = halides();
    for (const auto &[folder, version] : all)
        if (version == ATTUNE_HALIDE) return folder.string() + ", version " + version + " (making kernels)";
    const std::string hint = "; \"pip install halide==" ATTUNE_HALIDE "\" in an active virtual environment (making kernels)";
    if (all.empty()) return "not found" + hint;
    return all.front().first.string() + ", version " + all.front().second + ", needed: " ATTUNE_HALIDE + hint;
}

}  // namespace

std::string doctor_line(const std::string &name, const std::string &text) {
    return "  " + name + std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') + text + "\n";
}

std::string doctor_text() {
    std::string out = "machine\n";
    struct utsname system {};
    const bool known = ::uname(&system) == 0;
    const std::string model = field_of("/proc/cpuinfo", {"model name", "Model", "CPU part"});
    out += doctor_line("cpu", model.empty() ? "unknown" : model);
    if (known) out += doctor_line("system", std::string(system.sysname) + " " + system.machine);
    out += doctor_line("features", features());
    out += doctor_line("threads", threads());
    out += doctor_line("gpu", gpu());

    const std::vector<VariantInfo> all = variants();
    out += "\ntargets, the most specific first\n";
    for (const TargetInfo &target : targets()) {
        const auto linked =
            std::count_if(all.begin(), all.end(), [&](const VariantInfo &v) { return v.target == target.name; });
        out += doctor_line(std::string(target.name),
                           (target.missing.empty() ? "usable" : "not usable, lacks " + target.missing) + "; " +
                               std::to_string(linked) + (linked == 1 ? " variant" : " variants") + " linked in");
    }

    const auto here = std::count_if(all.begin(), all.end(), [](const VariantInfo &v) { return v.runs_here; });
    out += "\nvariants\n";
    out += doctor_line("linked in", std::to_string(all.size()));
    out += doctor_line("run here", std::to_string(here) + (here ? "" : "; build the preset native on this machine"));
    const auto predicted = [](const VariantInfo &v) {
        return v.runs_here && (v.op == "sdpa" || v.op == "linear") && v.schedule != "root" && v.kind != "weights";
    };
    const auto by_measurement =
        std::count_if(all.begin(), all.end(), [&](const VariantInfo &v) { return predicted(v) && v.cost_measured; });
    const auto all_predicted = std::count_if(all.begin(), all.end(), predicted);
    out += doctor_line("dispatch", std::to_string(by_measurement) + " of " + std::to_string(all_predicted) +
                                       " variants of sdpa and linear have predicted times that were measured on this target" +
                                       (by_measurement < all_predicted ? "; attune tune --dispatch measures them" : ""));
    if (const std::string missing = missing_variants(); !missing.empty()) out += doctor_line("warning", missing);
    for (const char *name : {"ATTUNE_FORCE_VARIANT", "ATTUNE_VERBOSE"})
        if (const char *value = std::getenv(name)) out += doctor_line("set", std::string(name) + "=" + value);
    if (const Context context; !context.status().ok()) out += doctor_line("problem", context.status().message());

    out += "\ntools for building and for retuning (running needs none of them)\n";
    for (const Tool &tool : build_tools) out += doctor_line(tool.name, found_of(tool));
    return out + doctor_line("halide", halide());
}

}  // namespace attune::program
