// SPDX-License-Identifier: MIT
// Main of the programs that make kernels for GPUs: an object whose image for CUDA is PTX or, where ptxas and fatbinary are
// given, a fat binary of code for compute capability 8.0, 8.9 and 9.0 and the PTX, so that nothing is compiled at the first
// call.
//
// <program> -g GENERATOR -f NAME -o FOLDER [--cuda-tools FOLDER] [--instruction TEXT] target=TARGET [registers=N]
// [parameter=value...] writes FOLDER/NAME.o and, for CUDA, FOLDER/NAME.ptx, whose first line has the shared memory of a block.
// Fails where the PTX lacks that instruction, or has code that would be slow or would not load. registers: the maximum of a
// lane, so that a multiprocessor has room for more blocks; 0, no maximum.
#include "generators/arguments/check_arguments.h"
#include "lowering/halide_patches/private_runtime.h"
#include "lowering/require.h"
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

namespace {
using namespace Halide;

struct Arguments {
    std::string generator, name, folder = ".", tools, instruction;
    int registers = 0;
    std::vector<std::pair<std::string, std::string>> parameters;
};

int registers_of(const std::string &value) {
    const bool number = !value.empty() && value.size() <= 3 && value.find_first_not_of("0123456789") == std::string::npos;
    const int registers = number ? std::stoi(value) : -1;
    attune::require(registers == 0 || (registers >= 32 && registers <= 255),
                    "registers is " + value + ", must be 0 or from 32 to 255");
    return registers;
}

Arguments parse(int argc, char **argv) {
    Arguments a;
    for (int n = 1; n < argc; n++) {
        const std::string word = argv[n];
        if (const auto equals = word.find('='); equals != std::string::npos) {
            const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
            if (name == "registers")
                a.registers = registers_of(value);
            else
                a.parameters.emplace_back(name, value);
            continue;
        }
        const std::string value = ++n < argc ? argv[n] : "";
        if (word == "-g")
            a.generator = value;
        else if (word == "-f")
            a.name = value;
        else if (word == "-o")
            a.folder = value;
        else if (word == "--cuda-tools")
            a.tools = value;
        else if (word == "--instruction")
            a.instruction = value;
        else
            attune::require(false, "unknown argument " + word);
    }
    return a;
}

void run(const std::string &command) {
    if (std::system(command.c_str())) throw std::runtime_error("attune: failed: " + command + "\n");
}

// Bytes of shared memory of a block, as kernels are launched with it.
class SharedMemory : public Internal::IRVisitor {
    using IRVisitor::visit;
    void visit(const Internal::Call *op) override {
        constexpr std::size_t argument = 8;
        if (op->name == "halide_cuda_run") {
            const Expr given = Internal::simplify(op->args.at(argument));
            const auto known = Internal::as_const_int(given);
            attune::require(known.has_value(), "shared memory is not known when the kernel is made");
            bytes = std::max(bytes, *known);
        }
        IRVisitor::visit(op);
    }

public:
    // Maximum per block on GPUs from compute capability 8.0 on, by request (runtime/src/device/cuda_backend.cpp).
    static constexpr std::int64_t most = 99 * 1024;
    std::int64_t bytes = 0;
};
std::int64_t shared_memory(const Module &module) {
    SharedMemory shared;
    for (const Internal::LoweredFunc &function : module.functions()) function.body.accept(&shared);
    attune::require(shared.bytes <= SharedMemory::most, "a block takes " + std::to_string(shared.bytes) +
                                                            " bytes of shared memory, more than " +
                                                            std::to_string(SharedMemory::most));
    return shared.bytes;
}

// PTX with a maximum of registers for its kernels, which Halide has no option for.
std::string with_registers(std::string ptx, int registers) {
    if (registers == 0) return ptx;
    for (std::size_t at = 0; (at = ptx.find(".entry ", at)) != std::string::npos;) {
        at = ptx.find('{', at);
        ptx.insert(at, ".maxnreg " + std::to_string(registers) + "\n");
    }
    return ptx;
}

void check(const std::string &ptx, const std::string &instruction) {
    for (const char *wrong : {".extern .func", "__local_depot"})
        attune::require(ptx.find(wrong) == std::string::npos, std::string("the PTX has ") + wrong);
    attune::require(ptx.find(instruction) != std::string::npos, "the PTX has no " + instruction);
}

std::string fat_binary(const std::string &ptx, const std::string &file, const std::string &tools) {
    std::string images;
    for (const std::string capability : {"80", "89", "90"}) {
        const std::string cubin = file + ".sm_" + capability + ".cubin";
        run(tools + "/ptxas -arch=sm_" + capability + " " + ptx + " -o " + cubin);
        images += " --image3=kind=elf,sm=" + capability + ",file=" + cubin;
    }
    const std::string binary = file + ".fatbin";
    run(tools + "/fatbinary --64 --create=" + binary + images + " --image3=kind=ptx,sm=80,file=" + ptx);
    std::ifstream in(binary, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// The module with its CUDA image in the form that is embedded.
Module with_image(const Module &module, const Arguments &a) {
    Module result(module.name(), module.target());
    for (const Buffer<> &buffer : module.buffers()) {
        if (buffer.name().find("cuda_gpu_source_kernels") == std::string::npos) {
            result.append(buffer);
            continue;
        }
        const std::string file = a.folder + "/" + a.name;
        const std::string ptx = with_registers(static_cast<const char *>(buffer.data()), a.registers);
        std::ofstream(file + ".ptx") << "// shared memory: " << shared_memory(module) << " bytes\n" << ptx;
        check(ptx, a.instruction);
        const std::string image = a.tools.empty() ? ptx + '\0' : fat_binary(file + ".ptx", file, a.tools);
        Buffer<std::uint8_t> embedded(static_cast<int>(image.size()), buffer.name());
        std::memcpy(embedded.data(), image.data(), image.size());
        result.append(embedded);
    }
    for (const Internal::LoweredFunc &function : module.functions()) result.append(function);
    return result;
}

void make(const Arguments &a) {
    std::string target;
    for (const auto &[name, value] : a.parameters)
        if (name == "target") target = value;
    const auto generator = Internal::GeneratorRegistry::create(a.generator, GeneratorContext(Target(target)));
    attune::require(generator != nullptr, "there is no generator " + a.generator);
    attune::ParameterValues given;
    for (const auto &[name, value] : a.parameters)
        if (name != "target") generator->set_generatorparam_value(name, given[name] = value);
    const std::string mismatch = attune::argument_mismatch(*generator, given);
    attune::require(mismatch.empty(), a.name + ": " + mismatch);
    with_image(generator->build_module(a.name), a).compile({{OutputFileType::object, a.folder + "/" + a.name + ".o"}});
    attune::require(attune::make_runtime_private(a.folder + "/" + a.name + ".o"), "the object cannot be changed");
}

}  // namespace

int main(int argc, char **argv) {
    try {
        make(parse(argc, argv));
        return 0;
    } catch (const Halide::Error &e) {
        std::cerr << e.what() << '\n';
    } catch (const std::exception &e) {
        std::cerr << e.what() << '\n';
    }
    return 1;
}
