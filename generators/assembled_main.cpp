// As Halide's own main() of a generator, but for kernels whose schedule loads tiles past L1 (schedules/matrix_tiles.h). LLVM knows
// the instruction and no pass that chooses it, and Halide has no name for it: kernels of tiles leave as assembly, loads are renamed
// there, and the system's assembler makes the object.
#include "schedules/matrix_tiles.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>

extern char **environ;

// Linked with --wrap=main: a generator's main() is in Halide's library, whole.
extern "C" int __real_main(int, char **);

namespace {

using Words = std::vector<std::string>;

std::vector<char *> pointers(Words &words) {
    std::vector<char *> all;
    for (std::string &word : words) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
}

// The word behind an option, which is there.
std::string &operand(Words &words, const std::string &option) { return *(std::find(words.begin(), words.end(), option) + 1); }
bool has(const Words &words, const std::string &word) { return std::find(words.begin(), words.end(), word) != words.end(); }

Words split_at_commas(const std::string &list) {
    Words all;
    std::istringstream in(list);
    for (std::string word; std::getline(in, word, ',');) all.push_back(word);
    return all;
}

void load_past_l1(const std::string &file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    const std::string load = "\ttileloadd\t", past_l1 = "\ttileloaddt1\t";
    std::string s = text.str();
    for (std::size_t at = 0; (at = s.find(load, at)) != std::string::npos; at += past_l1.size())
        s.replace(at, load.size(), past_l1);
    std::ofstream(file) << s;
}

int assemble(const std::string &from, const std::string &to) {
    Words words = {"as", "-o", to, from};
    pid_t process;
    int status = 1;
    const int failed = posix_spawnp(&process, "as", nullptr, nullptr, pointers(words).data(), environ);
    if (!failed) waitpid(process, &status, 0);
    if (failed || status) std::fprintf(stderr, "attune: the assembler, as, did not make %s\n", to.c_str());
    return failed || status;
}

}  // namespace

extern "C" int __wrap_main(int argc, char **argv) {
    Words words(argv, argv + argc);
    const bool complete = has(words, "-e") && has(words, "-o") && has(words, "-n");
    Words products = complete ? split_at_commas(operand(words, "-e")) : Words();
    const bool assembles = has(products, "object") && has(words, "schedule=tiles"), keeps = has(products, "assembly");
    if (assembles) {
        std::erase(products, "object");
        std::string &list = operand(words, "-e") = keeps ? "" : "assembly";
        for (const std::string &product : products) list += (list.empty() ? "" : ",") + product;
    }
    const int failed = __real_main(argc, pointers(words).data());
    if (failed || !assembles) return failed;
    const std::string file = operand(words, "-o") + "/" + operand(words, "-n");
    if (attune::loads_tiles_past_l1()) load_past_l1(file + ".s");
    const int refused = assemble(file + ".s", file + ".o");
    if (!keeps) std::remove((file + ".s").c_str());
    return refused;
}
