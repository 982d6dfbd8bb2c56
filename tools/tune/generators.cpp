// SPDX-License-Identifier: MIT
#include "generators.h"
#include "candidates.h"
#include "hash.h"
#include "subprocess.h"
#include "tools/error.h"
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <thread>

namespace attune::tune {
namespace fs = std::filesystem;
using program::InputError, program::MachineError;
namespace {

constexpr const char *list = "attune_generators.json";
constexpr std::string_view users_prefix = "user_";  // prefix of ops of attune_add_attention()
constexpr double build_limit = 1800;                // seconds; a build takes a minute on an idle machine

std::string tail_of(const std::string &text, std::size_t lines) {
    std::size_t at = text.size();
    for (std::size_t n = 0; n <= lines && at != 0 && at != text.npos; n++) at = at ? text.rfind('\n', at - 1) : 0;
    return at == text.npos ? text : text.substr(at);
}

// The other sources are modules of LLVM.
bool is_cpp(const fs::path &file) {
    return file.extension() == ".cpp" || file.extension() == ".h" || file.extension() == ".cc" || file.extension() == ".hpp";
}

void say(const std::string &what) { std::fprintf(stderr, "attune tune: %s\n", what.c_str()); }

// share/attune of the package that the program is installed with; empty if it is not.
fs::path package_of(const fs::path &program) {
    const fs::path share = (program.parent_path() / ATTUNE_SHARE_FROM_PROGRAM).lexically_normal();
    return fs::exists(share / "cmake/tune/CMakeLists.txt") ? share : fs::path();
}

// Configures a package's project that builds its generator programs, in the cache; returns its build folder.
fs::path configure(const fs::path &share) {
    const fs::path folder = cache_folder() / ("programs-" + hex(hash_of(share.string())));
    if (fs::exists(folder / list)) return folder;
    Process version{{"cmake", "--version"}, {}, 60};
    const ProcessResult found = run(version);
    int major = 0, minor = 0;
    if (!found.ok() || std::sscanf(found.output.c_str(), "cmake version %d.%d", &major, &minor) != 2 ||
        major * 100 + minor < 328)
        throw MachineError("attune tune",
                           "making kernels needs CMake 3.28 or later on PATH, and a C++ compiler: \"pip install cmake\" "
                           "in a virtual environment, and activate it");
    say("preparing the programs that make kernels in " + folder.string());
    const Process process{{"cmake", "-S", (share / "cmake/tune").string(), "-B", folder.string()}, {}, build_limit};
    const ProcessResult result = run(process);
    if (result.ok()) return folder;
    std::error_code ignored;
    fs::remove_all(folder, ignored);  // CMake would remember what was missing
    // CMake breaks the lines of its messages.
    std::string errors;
    for (char c : result.errors)
        if (c != '\n' && !(c == ' ' && !errors.empty() && errors.back() == ' '))
            errors += c;
        else if (!errors.empty() && errors.back() != ' ')
            errors += ' ';
    const std::size_t halide = errors.find("making kernels needs");
    if (halide != errors.npos)
        throw MachineError("attune tune", errors.substr(halide, errors.find("Halide_DIR.", halide) - halide) + "Halide_DIR.");
    throw MachineError("attune tune", "cmake " + result.failure(build_limit) + tail_of(result.output + result.errors, 20));
}

}  // namespace

Generators::Generators(std::string folder) : folder_(std::move(folder)) {
    const std::string file = folder_ + "/" + list;
    try {
        json_ = nlohmann::json::parse(bytes_of(file));
        if (json_.at("schema") != 1) throw InputError(file, "of another version of attune");
        source_dir_ = json_.at("source_dir").get<std::string>();
    } catch (const nlohmann::json::exception &e) {
        throw InputError(file, e.what());
    }
}

Generators Generators::find(const std::string &op, const std::optional<std::string> &build) {
    const fs::path own = own_program(), share = package_of(own);
    fs::path folder;
    if (build) {
        folder = fs::absolute(*build);
        if (!fs::exists(folder / list))
            throw InputError("--build", *build + " has no " + list +
                                            ": it must be the build folder of a project with attune_add_attention(), "
                                            "attune_add_variants() or attune itself, configured by its CMake");
    } else if (!share.empty()) {
        folder = configure(share);
    } else {
        for (fs::path p = own.parent_path(); folder.empty() && p != p.root_path(); p = p.parent_path())
            if (fs::exists(p / list)) folder = p;
        if (folder.empty())
            throw MachineError("attune tune",
                               "this program is neither in the tree that it was built in nor in an installed package, so "
                               "that the programs that make kernels cannot be found; name a build folder with --build");
    }
    Generators found(folder.lexically_normal().string());
    found.installed_ =
        fs::exists(fs::path(found.source_dir_) / "cmake/tune") && !fs::exists(fs::path(found.source_dir_) / "CMakeLists.txt");
    found.of_op(found.op_of(op));
    return found;
}

std::string Generators::op_of(const std::string &name) const {
    const std::string users = std::string(users_prefix) + name;
    return json_.at("ops").contains(users) ? users : name;
}

std::string Generators::name_of_op(const std::string &op) {
    return op.starts_with(users_prefix) ? op.substr(users_prefix.size()) : op;
}

const nlohmann::json &Generators::of_op(const std::string &op) const {
    const auto &ops = json_.at("ops");
    if (const auto found = ops.find(op); found != ops.end()) return *found;
    throw InputError(op, "no such op is made in " + folder_ + ", which has " + tunable() +
                             "; an attention of your own is in the build folder of its project: --build");
}

std::string Generators::tunable() const {
    std::string library, users;
    for (const auto &[name, value] : json_.at("ops").items()) {
        std::string &names = is_users(name) ? users : library;
        if (is_users(name) || fs::exists(shapes_folder() + "/" + name + ".csv"))
            names += (names.empty() ? "" : ", ") + name_of_op(name);
    }
    return library.empty() ? users : library;  // a project of a user has no op of the library
}

bool Generators::is_users(const std::string &op) const { return of_op(op).contains("module"); }

GeneratorProgram Generators::program(const std::string &op, const std::string &dtype, const std::string &target) const {
    static const std::map<std::string, std::string> types = {
        {"f32", "float32"}, {"f64", "float64"}, {"bf16", "bfloat16"}, {"f16", "float16"}, {"bool", "uint8"}};
    const auto &one = of_op(op);
    const auto &targets = json_.at("targets");
    if (!targets.contains(target)) throw InputError(target, "is no target of schedules/targets.json");
    if (!types.contains(dtype)) throw InputError(dtype, "is no element type of a kernel");
    const std::string name = one.at("program");
    const auto &program = json_.at("programs").at(name);
    // The headers that a user's sources include are known to their build alone.
    const bool current = up_to_date(program);
    if (!current) say("making " + name);
    if (!current || is_users(op)) build(name);
    GeneratorProgram p{.program = program.at("file"),
                       .generator = one.at("generator"),
                       .parameters = one.at("parameters"),
                       .target = targets.at(target),
                       .dtype = types.at(dtype),
                       .attention = one.at("attention"),
                       .algorithm = {},
                       .halide = json_.at("halide"),
                       .hash = 0};
    const std::string bytes = bytes_of(p.program);
    if (bytes.empty()) throw MachineError(p.program, "cannot be read");
    p.hash = hash_of(bytes);
    std::uint64_t hash = is_users(op) ? p.hash : hash_of({});
    for (const std::string &file : files_of(program)) {
        const std::string text = bytes_of(file);
        hash = hash_of(is_cpp(file) ? without_comments(text) : text, hash);
    }
    p.algorithm = hex(hash);
    return p;
}

// Sources of a program, and the headers beside them.
std::vector<std::string> Generators::files_of(const nlohmann::json &program) const {
    std::set<std::string> files, folders;
    for (const std::string file : program.at("sources")) {
        const fs::path path = fs::path(source_dir_) / file;  // the file, where it is absolute
        files.insert(path.string());
        if (fs::path(file).is_relative()) folders.insert(path.parent_path().string());
    }
    for (const char *shared : {"generators/include/attune/generator", "generators/math", "schedules"})
        folders.insert(source_dir_ + "/" + shared);
    for (const std::string &folder : folders) {
        std::error_code none;
        for (const auto &entry : fs::directory_iterator(folder, none))
            if (entry.path().extension() == ".h") files.insert(entry.path().string());
    }
    return {files.begin(), files.end()};
}

bool Generators::up_to_date(const nlohmann::json &program) const {
    const std::string made = program.at("file");
    std::error_code error;
    const auto when = fs::last_write_time(made, error);
    if (error) return false;
    for (const std::string &file : files_of(program))
        if (fs::last_write_time(file, error) > when || error) return false;
    return true;
}

void Generators::build(const std::string &target) const {
    const std::string config = json_.at("config");
    const Process process{{json_.at("cmake"), "--build", folder_, "--config", config.empty() ? "Release" : config, "--target",
                           target, "--parallel", std::to_string(std::max(1u, std::thread::hardware_concurrency()))},
                          {},
                          build_limit};
    const ProcessResult result = run(process);
    if (!result.ok())
        throw MachineError("attune tune", target + " cannot be made in " + folder_ + ": " + result.failure(build_limit) +
                                              tail_of(result.output + result.errors, 30));
}

std::string Generators::program_of_build() const {
    const std::string program = folder_ + "/tools/attune";
    if (installed_ || !std::filesystem::exists(program)) return "";
    build("attune_program");
    return program;
}

std::string Generators::like(const std::string &op) const { return of_op(op).value("like", op); }

std::string Generators::space_file(const std::string &op) const { return schedules() + "/" + like(op) + "/space.json"; }

std::string Generators::parameters_file(const std::string &op, const std::string &target) const {
    if (installed_) throw InputError("--out", "must be given: parameters are not written into an installed package");
    if (is_users(op)) throw InputError("--out", "must be given for an attention of your own");
    return schedules() + "/" + op + "/tuned/" + target + ".json";
}

std::string Generators::module(const std::string &op) const {
    const auto &one = of_op(op);
    if (!one.contains("module")) throw InputError(op, "is an op of the library and no attention of your own");
    build(one.at("module").at("target"));
    return one.at("module").at("file");
}

}  // namespace attune::tune
