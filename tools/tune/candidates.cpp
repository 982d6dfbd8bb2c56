// SPDX-License-Identifier: MIT
#include "candidates.h"
#include "hash.h"
#include "subprocess.h"
#include "tools/error.h"
#include "tools/files/atomic_file.h"
#include <cstdlib>
#include <memory>

namespace attune::tune {
namespace fs = std::filesystem;
namespace {

constexpr const char *symbol = "attune_candidate";  // the same for all: another name would be other code

// The error of a generator program, in one line.
std::string complaint(const std::string &errors) {
    const std::size_t own = errors.find("attune: ");
    std::string text = own == std::string::npos ? errors : errors.substr(own + 8);
    text.erase(std::min(text.find('\n'), text.size()));
    return text;
}

std::string linker() {
    const char *given = std::getenv("CXX");
    return given && *given ? given : "c++";
}

}  // namespace

fs::path cache_folder() {
    const char *xdg = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
    const fs::path base = xdg && *xdg ? fs::path(xdg) : home && *home ? fs::path(home) / ".cache" : fs::temp_directory_path();
    const fs::path folder = base / "attune" / "tune";
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw program::MachineError(folder, "cannot be made: " + error.message());
    return folder;
}

std::string own_program() { return fs::read_symlink("/proc/self/exe").string(); }

void forget_environment() {
    for (const char *name : {"ATTUNE_FORCE_VARIANT", "ATTUNE_VERBOSE", "ATTUNE_RECORD_SHAPES"}) ::unsetenv(name);
}

CandidateMaker::CandidateMaker(const Cell &cell, const GeneratorProgram &program, const fs::path &cache)
    : program_(program.program), program_hash_(program.hash), cache_(cache) {
    arguments_ = {"-g",
                  program.generator,
                  "-e",
                  "object",
                  "target=" + program.target + ATTUNE_KERNEL_FEATURES,
                  "schedule=" + cell.schedule,
                  "dtype=" + program.dtype};
    if (program.attention) {
        arguments_.push_back("head_dim=" + std::to_string(cell.head_dim));
        arguments_.push_back("kind=" + cell.kind);
    }
    arguments_.insert(arguments_.end(), program.parameters.begin(), program.parameters.end());
    make_cache();
}

CandidateMaker::CandidateMaker(const nlohmann::json &job, const fs::path &cache)
    : arguments_(job.at("arguments").get<std::vector<std::string>>()), program_(job.at("program").get<std::string>()),
      program_hash_(job.at("program_hash").get<std::uint64_t>()), cache_(cache) {
    if (program_hash_ != 0 && hash_of(bytes_of(program_)) != program_hash_)
        throw program::MachineError(program_, "is not that of the rank that asks for candidates");
    make_cache();
}

void CandidateMaker::make_cache() const {
    std::error_code error;
    fs::create_directories(cache_, error);
    if (error) throw program::MachineError(cache_, "cannot be made: " + error.message());
}

fs::path CandidateMaker::file_of(const Parameters &parameters, const fs::path &folder) const {
    std::uint64_t hash = hash_of(text_of(parameters), program_hash_);
    for (const std::string &argument : arguments_) hash = hash_of(argument, hash);
    return folder / hex(hash);
}

std::optional<Candidate> CandidateMaker::find(const Parameters &parameters) const {
    const std::string file = file_of(parameters, cache_).string();
    if (!fs::exists(file + ".so")) return {};
    return Candidate{parameters, file + ".so", symbol, bytes_of(file + ".code"), "", "", "", ""};
}

nlohmann::json CandidateMaker::job(const Parameters &parameters, double limit) const {
    return {{"program", program_},
            {"program_hash", program_hash_},
            {"arguments", arguments_},
            {"parameters", parameters},
            {"limit", limit}};
}

std::optional<Candidate> CandidateMaker::adopt(const Parameters &parameters, const fs::path &kernels) const {
    const std::string from = file_of(parameters, kernels).string(), to = file_of(parameters, cache_).string();
    const std::string code = bytes_of(from + ".code"), object = bytes_of(from + ".so");
    if (code.empty() || object.empty()) return {};
    program::write_file(to + ".code", code);
    program::write_file(to + ".so", object);  // last: where the library exists, the other file does
    return find(parameters);
}

std::vector<Candidate> CandidateMaker::make(const std::vector<Parameters> &all, int jobs, double limit) const {
    std::vector<Candidate> made(all.size());
    std::vector<Process> compilers, linkers;
    std::vector<std::size_t> compiled, linked;
    std::vector<fs::path> files(all.size());
    std::vector<std::unique_ptr<program::TemporaryFile>> objects(all.size()), libraries(all.size());
    const auto own_file = [&](const char *ending) {
        auto file = std::make_unique<program::TemporaryFile>(cache_, ending);
        file->close();  // other programs write it
        return file;
    };
    for (std::size_t n = 0; n < all.size(); n++) {
        if (const auto known = find(all[n])) {
            made[n] = *known;
            continue;
        }
        files[n] = file_of(all[n], cache_);
        made[n] = {all[n], files[n].string() + ".so", symbol, "", "", "", "", ""};
        objects[n] = own_file(".o");  // other tuners may use the same cache
        std::vector<std::string> words = {program_};
        words.insert(words.end(), arguments_.begin(), arguments_.end());
        words.insert(words.end(), {"-f", symbol, "-n", objects[n]->path().stem().string(), "-o", cache_.string()});
        for (const auto &[name, value] : all[n]) words.push_back(name + "=" + std::to_string(value));
        compiled.push_back(n), compilers.push_back({words, "", limit});
    }
    const std::vector<ProcessResult> results = run_all(compilers, jobs);
    for (std::size_t i = 0; i < compiled.size(); i++) {
        const std::size_t n = compiled[i];
        const fs::path &object = objects[n]->path();
        if (results[i].ok() && !bytes_of(object).empty()) {
            linked.push_back(n);
            libraries[n] = own_file(".so");
            linkers.push_back({{linker(), "-shared", "-o", libraries[n]->path().string(), object.string()}, "", 60});
            continue;
        }
        const std::string said = complaint(results[i].errors);
        made[n].verdict = results[i].timed_out ? "timeout" : "compile_error";
        made[n].reason = results[i].timed_out || said.empty() ? "the compiler " + results[i].failure(limit) : said;
    }
    const std::vector<ProcessResult> links = run_all(linkers, jobs);
    for (std::size_t i = 0; i < linked.size(); i++) {
        const std::size_t n = linked[i];
        if (!links[i].ok())
            throw program::MachineError(linker(),
                                        "cannot link a kernel: " + links[i].failure(60) + " " + complaint(links[i].errors));
        made[n].code = hex(hash_of(bytes_of(objects[n]->path())));
        program::write_file(files[n].string() + ".code", made[n].code);
        libraries[n]->rename(made[n].object);  // last: where the library exists, the other files do
    }
    return made;
}

}  // namespace attune::tune
