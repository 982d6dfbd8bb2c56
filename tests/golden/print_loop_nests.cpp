// SPDX-License-Identifier: MIT
// Prints the loop nest of variants. Input, a line each: <name> <Halide target> <generator parameter>=<value>...
// usage: print_loop_nests GENERATOR LIST [NAME...]    (names: only these)
#include "Halide.h"
#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace {
// Text that is written to a stream for as long as this object lives.
class Captured {
public:
    explicit Captured(std::ostream &from) : from_(from), before_(from.rdbuf(text_.rdbuf())) {}
    ~Captured() { from_.rdbuf(before_); }
    Captured(const Captured &) = delete;
    std::string text() const { return text_.str(); }

private:
    std::ostringstream text_;
    std::ostream &from_;
    std::streambuf *before_;
};

void print_loop_nest(const char *generator_name, const std::string &line) {
    std::istringstream words(line);
    std::string name, target, parameter;
    words >> name >> target;
    auto generator =
        Halide::Internal::GeneratorRegistry::create(generator_name, Halide::GeneratorContext(Halide::Target(target)));
    while (words >> parameter) {
        if (parameter.starts_with("registers=")) continue;  // for ptxas, not for loops (lowering/device_generator_main.cpp)
        const auto equals = parameter.find('=');
        generator->set_generatorparam_value(parameter.substr(0, equals), parameter.substr(equals + 1));
    }
    const Captured nest(std::cerr);  // Halide prints the loop nest there
    generator->build_pipeline().print_loop_nest();
    std::cout << "== " << name << "\n" << nest.text() << std::endl;
}
}  // namespace

int main(int argc, char **argv) try {
    if (argc < 3) return std::cerr << "usage: print_loop_nests GENERATOR LIST [NAME...]\n", 2;
    std::ifstream list(argv[2]);
    if (!list) return std::cerr << "cannot read " << argv[2] << "\n", 2;
    for (std::string line; std::getline(list, line);) {
        const std::string name = line.substr(0, line.find(' '));
        if (name.empty() || (argc > 3 && std::find(argv + 3, argv + argc, name) == argv + argc)) continue;
        // A process each, as for kernels: state that Halide 21 keeps of a derivative in bf16 breaks one in f16.
        const pid_t child = fork();
        if (child == 0) return print_loop_nest(argv[1], line), 0;
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return std::cerr << name << ": no loop nest\n", 1;
    }
    return 0;
} catch (const Halide::Error &error) {
    return std::cerr << error.what() << "\n", 1;
}
