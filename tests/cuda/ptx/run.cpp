// Runs a kernel one block at a time, its warps one after the other up to a barrier. The lanes of a warp that stand at the same
// instruction go on together, the furthest behind first, so that lanes that parted meet again.
#include "lanes.h"
#include "matrices.h"
#include <cstring>
#include <deque>
#include <stdexcept>

namespace ptx {
namespace {

constexpr int finished = 1 << 30;

[[noreturn]] void fail(const Instruction &in, const std::string &why) { throw std::runtime_error(why + ": " + in.text); }

int bytes_of(const Instruction &in) { return std::stoi(in.type.substr(1)) / 8; }

struct Block {
    const Kernel &kernel;
    const std::vector<Lanewise> &lanewise;
    const std::map<std::string, std::uint64_t> &arguments;
    std::vector<char> shared;
};

// A copy that a lane has asked for (cp.async), and those that it has not waited for yet.
struct Copy {
    char *to;
    const char *from;
    std::size_t bytes, given;  // the rest is 0
};
struct Copies {
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
};

class Warp {
public:
    Warp(Block &block, const unsigned (&index)[3], const unsigned (&size)[3], unsigned first, unsigned threads)
        : block_(block) {
        registers_.values.assign(static_cast<std::size_t>(block.kernel.places) * lanes, 0xdeadbeef);
        for (int lane = 0; lane < lanes; lane++) {
            const unsigned thread = first + static_cast<unsigned>(lane);
            at_[lane] = thread < threads ? 0 : finished;
            const unsigned of[] = {thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]};
            for (const auto &[place, bits] : block.kernel.constants) registers_.at(place, lane) = bits;
            for (const auto &[place, name] : block.kernel.specials) {
                const int axis = name.back() - 'x';
                if (name.rfind("%tid.", 0) == 0)
                    registers_.at(place, lane) = of[axis];
                else if (name.rfind("%ctaid.", 0) == 0)
                    registers_.at(place, lane) = index[axis];
                else if (name.rfind("%ntid.", 0) == 0)
                    registers_.at(place, lane) = size[axis];
                else
                    throw std::runtime_error("special register " + name);
            }
        }
    }

    // Up to the next barrier; false: to the end.
    bool run() {
        for (;;) {
            int at = finished;
            for (const int a : at_) at = std::min(at, a);
            if (at == finished) return false;
            std::uint32_t here = 0;
            for (int lane = 0; lane < lanes; lane++) here |= std::uint32_t(at_[lane] == at) << lane;
            const Instruction &in = block_.kernel.code[static_cast<std::size_t>(at)];
            std::uint32_t mask = here;
            if (in.predicate >= 0) {
                each_lane(here, [&](int lane) {
                    if ((registers_.at(in.predicate, lane) & 1) == in.negated) mask &= ~(std::uint32_t(1) << lane);
                });
            }
            each_lane(here, [&](int lane) { at_[lane] = at + 1; });
            if (in.operation == "bar" || in.operation == "barrier") {
                if (here != running()) fail(in, "a barrier that not all lanes reach");
                return true;
            }
            step(in, static_cast<std::size_t>(at), mask);
        }
    }

private:
    std::uint32_t running() const {
        std::uint32_t all = 0;
        for (int lane = 0; lane < lanes; lane++) all |= std::uint32_t(at_[lane] != finished) << lane;
        return all;
    }

    void step(const Instruction &in, std::size_t number, std::uint32_t mask) {
        const std::string &op = in.operation;
        if (block_.lanewise[number])
            block_.lanewise[number](registers_, in, mask);
        else if (op == "bra")
            each_lane(mask, [&](int lane) { at_[lane] = in.target; });
        else if (op == "ret" || op == "exit")
            each_lane(mask, [&](int lane) { at_[lane] = finished; });
        else if (op == "ld" || op == "st")
            move_memory(in, mask);
        else if (op == "shfl")
            exchange(in, mask);
        else if (op == "mma")
            multiply(in, mask);
        else if (op == "ldmatrix")
            load_fragments(in, mask);
        else if (op == "cp")
            copy(in, mask);
        else if (mask)
            fail(in, "not known here");
    }

    void move_memory(const Instruction &in, std::uint32_t mask) {
        const bool store = in.operation == "st";
        const Operand &place = in.operands[store ? 0 : 1], &values = in.operands[store ? 1 : 0];
        const auto size = static_cast<std::size_t>(bytes_of(in));
        if (in.has("param")) {
            const std::uint64_t value = block_.arguments.at(place.symbol);
            return each_lane(mask, [&](int lane) { registers_.at(values.places[0], lane) = value; });
        }
        each_lane(mask, [&](int lane) {
            const std::uint64_t base = address(place, lane);
            if (base % (size * values.places.size())) fail(in, "a vector that is not aligned");
            for (std::size_t n = 0; n < values.places.size(); n++) {
                char *at = memory(in, base + n * size, size);
                std::uint64_t &value = registers_.at(values.places[n], lane);
                if (store) {
                    std::memcpy(at, &value, size);
                } else {
                    value = 0;
                    std::memcpy(&value, at, size);
                }
            }
        });
    }
    char *memory(const Instruction &in, std::uint64_t address, std::size_t size) const {
        if (!in.has("shared")) return reinterpret_cast<char *>(address);
        if (address + size > block_.shared.size()) fail(in, "beyond shared memory");
        return block_.shared.data() + address;
    }

    std::uint64_t address(const Operand &operand, int lane) {
        return (operand.places.empty() ? 0 : registers_.at(operand.places[0], lane)) +
               static_cast<std::uint64_t>(operand.offset);
    }

    void load_fragments(const Instruction &in, std::uint32_t mask) {
        const bool transposed = in.has("trans");
        if (in.text.find(transposed ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                                    : "ldmatrix.sync.aligned.m8n8.x4.shared.b16 ") == std::string::npos)
            fail(in, "not known here");
        if (mask != ~std::uint32_t(0)) fail(in, "lanes are missing where matrices are loaded");
        constexpr std::size_t row = 16;
        const char *rows[lanes];
        for (int lane = 0; lane < lanes; lane++) {
            const std::uint64_t at = address(in.operands[1], lane);
            if (at % row) fail(in, "a row that is not aligned");
            rows[lane] = memory(in, at, row);
        }
        load_matrices(registers_, in, rows, transposed);
    }

    // Done as late as the manual allows: when the lane waits for the group. Until then its target holds neither what was there
    // before nor what will be.
    void copy(const Instruction &in, std::uint32_t mask) {
        const bool commits = in.parts == std::vector<std::string>{"cp", "async", "commit_group"};
        const bool waits = in.parts == std::vector<std::string>{"cp", "async", "wait_group"};
        constexpr std::size_t size = 16;
        if (!commits && !waits && in.parts != std::vector<std::string>{"cp", "async", "cg", "shared", "global"})
            fail(in, "not known here");
        each_lane(mask, [&](int lane) {
            Copies &of_lane = copies_[lane];
            if (commits) {
                of_lane.groups.push_back(std::move(of_lane.open));
                of_lane.open.clear();
            } else if (waits) {
                const auto left = registers_.at(in.operands[0].places[0], lane);
                for (; of_lane.groups.size() > left; of_lane.groups.pop_front())
                    for (const Copy &c : of_lane.groups.front()) {
                        std::memset(c.to, 0, c.bytes);
                        std::memcpy(c.to, c.from, c.given);
                    }
            } else {
                auto number = [&](std::size_t n) { return registers_.at(in.operands[n].places[0], lane) & 0xffffffff; };
                const std::uint64_t to = address(in.operands[0], lane), from = address(in.operands[1], lane);
                const std::size_t given = in.operands.size() > 3 ? number(3) : size;
                if (number(2) != size || given > size || to % size || from % size) fail(in, "size or alignment");
                char *target = memory(in, to, size);
                std::memset(target, unknown_byte, size);
                of_lane.open.push_back({target, reinterpret_cast<const char *>(from), size, given});
            }
        });
    }

    // What a lane reads of another, which has to be there.
    void exchange(const Instruction &in, std::uint32_t mask) {
        if (in.parts != std::vector<std::string>{"shfl", "sync", "bfly", "b32"} || in.operands.size() != 5)
            fail(in, "not known here");
        if (mask != ~std::uint32_t(0)) fail(in, "lanes are missing in an exchange");
        std::uint64_t before[lanes];
        for (int lane = 0; lane < lanes; lane++) before[lane] = registers_.at(in.operands[1].places[0], lane);
        for (int lane = 0; lane < lanes; lane++) {
            const auto other =
                static_cast<unsigned>(lane) ^ static_cast<unsigned>(registers_.at(in.operands[2].places[0], lane));
            registers_.at(in.operands[0].places[0], lane) = before[other % lanes];
        }
    }

    void multiply(const Instruction &in, std::uint32_t mask) {
        const bool halves = in.text.find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") != std::string::npos;
        if (!halves && in.text.find("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") == std::string::npos)
            fail(in, "not known here");
        if (mask != ~std::uint32_t(0)) fail(in, "lanes are missing in a product of matrices");
        multiply_matrices(registers_, in, halves ? float_of_f16 : float_of_bf16);
    }

    Block &block_;
    Registers registers_;
    int at_[lanes];
    Copies copies_[lanes];
};

}  // namespace

void run(const Kernel &kernel, const unsigned (&grid)[3], const unsigned (&size)[3], unsigned shared_bytes, void **given) {
    std::map<std::string, std::uint64_t> arguments;
    for (std::size_t n = 0; n < kernel.parameters.size(); n++) {
        std::uint64_t value = 0;
        std::memcpy(&value, given[n], static_cast<std::size_t>(kernel.parameters[n].bytes));
        arguments[kernel.parameters[n].name] = value;
    }
    std::vector<Lanewise> of_lanes;
    for (const Instruction &in : kernel.code) of_lanes.push_back(lanewise(in));
    const unsigned threads = size[0] * size[1] * size[2];
    unsigned index[3];
    for (index[2] = 0; index[2] < grid[2]; index[2]++)
        for (index[1] = 0; index[1] < grid[1]; index[1]++)
            for (index[0] = 0; index[0] < grid[0]; index[0]++) {
                Block block{kernel, of_lanes, arguments, std::vector<char>(shared_bytes, unknown_byte)};
                std::vector<Warp> warps;
                for (unsigned first = 0; first < threads; first += lanes)
                    warps.emplace_back(block, index, size, first, threads);
                // First to last, and last to first up to the next barrier: where one is missing a warp reads what another has
                // not written yet, or overwrites what it still reads.
                for (bool more = true, forward = true; more; forward = !forward) {
                    more = false;
                    for (std::size_t n = 0; n < warps.size(); n++)
                        more = warps[forward ? n : warps.size() - 1 - n].run() || more;
                }
            }
}

}  // namespace ptx
