// Prints the loop nest of variants. Input, a line each: <name> <Halide target> <generator parameter>=<value>...
// usage: print_loop_nests GENERATOR LIST [NAME...]    (names: only these)
#include "Halide.h"
#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

int main(int argc, char **argv) try {
    if (argc < 3) return std::cerr << "usage: print_loop_nests GENERATOR LIST [NAME...]\n", 2;
    std::ifstream list(argv[2]);
    if (!list) return std::cerr << "cannot read " << argv[2] << "\n", 2;
    std::ostringstream captured;
    std::streambuf *const before = std::cerr.rdbuf(captured.rdbuf());  // Halide prints loop nests to cerr
    for (std::string line; std::getline(list, line);) {
        std::istringstream words(line);
        std::string name, target, parameter;
        words >> name >> target;
        if (name.empty() || (argc > 3 && std::find(argv + 3, argv + argc, name) == argv + argc)) continue;
        auto generator = Halide::Internal::GeneratorRegistry::create(argv[1], Halide::GeneratorContext(Halide::Target(target)));
        while (words >> parameter) {
            const auto equals = parameter.find('=');
            generator->set_generatorparam_value(parameter.substr(0, equals), parameter.substr(equals + 1));
        }
        captured.str("");
        generator->build_pipeline().print_loop_nest();
        std::cout << "== " << name << "\n" << captured.str() << "\n";
    }
    std::cerr.rdbuf(before);
    return 0;
} catch (const Halide::Error &error) {
    return std::cerr << error.what() << "\n", 1;
}
