// SPDX-License-Identifier: MIT
// A generator under the name of another whose argument list is declared, with another list: its program must not emit it.
#include <Halide.h>

namespace {
using namespace Halide;
enum class Wrong { nothing, swapped, missing, extra, type, rank, name };

class CaptureSum : public Halide::Generator<CaptureSum> {
public:
    GeneratorParam<Wrong> wrong{"wrong",
                                Wrong::nothing,
                                {{"nothing", Wrong::nothing},
                                 {"swapped", Wrong::swapped},
                                 {"missing", Wrong::missing},
                                 {"extra", Wrong::extra},
                                 {"type", Wrong::type},
                                 {"rank", Wrong::rank},
                                 {"name", Wrong::name}}};

    void configure() {
        if (wrong == Wrong::swapped) add_input<bool>("sums_keys");
        sums = add_input<Buffer<>>(wrong == Wrong::name ? "sum" : "sums", Float(32), wrong == Wrong::rank ? 3 : 2);
        if (wrong == Wrong::type)
            add_input<int32_t>("sums_keys");
        else if (wrong != Wrong::swapped && wrong != Wrong::missing)
            add_input<bool>("sums_keys");
        if (wrong == Wrong::extra) add_input<bool>("more");
        grad_capture = add_output<Buffer<>>("grad_capture", Float(32), 2);
    }
    void generate() {
        Var x("x"), y("y");
        (*grad_capture)(x, y) = wrong == Wrong::rank ? (*sums)(x, y, 0) : (*sums)(x, y);
    }

private:
    Input<Buffer<>> *sums = nullptr;
    Output<Buffer<>> *grad_capture = nullptr;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(CaptureSum, capture_sum)
