// Halide's own main() of a generator, but for kernels whose schedule has instructions stand in for others (lowering/instructions/stand_ins.h), and
// without a warning that says what is meant; each object calls the library's own copy of Halide's runtime (private_runtime.h), and
// takes the arguments that the runtime passes (check_arguments.h).
#include "generators/arguments/check_arguments.h"
#include "lowering/halide_patches/private_runtime.h"
#include "lowering/instructions/stand_ins.h"
#include <Halide.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
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

// Tensors of 16 bits are stored as such and computed in f32: that their few conversions are emulated where the CPU has none is no
// news, and would be said once for each function of each kernel.
class Reporter : public Halide::CompileTimeErrorReporter {
public:
    void warning(const char *message) override {
        if (!std::strstr(message, "(b)float16 type operation is emulated")) std::fputs(message, stderr);
    }
    [[noreturn]] void error(const char *message) override { throw Halide::CompileError(message); }  // as without a reporter
};

int name_what_is_meant(const std::string &file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    std::string s = text.str();
    for (const auto &[stand_in, meant] : attune::stand_ins()) {
        std::size_t found = 0;
        for (std::size_t at = 0; (at = s.find('\t' + stand_in, at)) != std::string::npos; found++)
            s.replace(at + 1, stand_in.size(), meant);
        if (!found) return std::fprintf(stderr, "attune: nothing stands in %s for %s\n", file.c_str(), meant.c_str()), 1;
    }
    std::ofstream(file) << s;
    return 0;
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
    static Reporter reporter;
    Halide::set_custom_compile_time_error_reporter(&reporter);
    Words words(argv, argv + argc);
    const bool complete = has(words, "-e") && has(words, "-o") && has(words, "-n");
    Words products = complete ? split_at_commas(operand(words, "-e")) : Words();
    const bool assembles = has(products, "object"), keeps = has(products, "assembly");
    bool by_assembly = (assembles || keeps) && std::any_of(words.begin(), words.end(), attune::wants_stand_ins);
    for (const char *other : {"bitcode", "llvm_assembly", "static_library"}) by_assembly &= !has(products, other);
    const std::string file = complete ? operand(words, "-o") + "/" + operand(words, "-n") : "";
    const auto callable = [&] {
        return !assembles || (attune::make_runtime_private(file + ".o") && attune::arguments_match({argv, argv + argc}));
    };
    if (!by_assembly) {
        const int failed = __real_main(argc, argv);
        return failed || !callable();
    }

    attune::leave_as_assembly();
    if (assembles) {
        std::erase(products, "object");
        std::string &list = operand(words, "-e") = keeps ? "" : "assembly";
        for (const std::string &product : products) list += (list.empty() ? "" : ",") + product;
    }
    int failed = __real_main(argc, pointers(words).data());
    failed = failed || name_what_is_meant(file + ".s");
    failed = failed || (assembles && assemble(file + ".s", file + ".o"));
    failed = failed || !callable();
    if (!keeps) std::remove((file + ".s").c_str());
    return failed;
}
