// SPDX-License-Identifier: MIT
// Runs a kernel one block at a time, its warps one after the other up to a barrier. Lanes of a warp at the same instruction run
// together, the furthest behind first, so that diverged lanes meet again.
#include "lanes.h"
#include "matrices.h"
#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace ptx {
namespace {

constexpr int finished = 1 << 30;

[[noreturn]] void fail(const Instruction &in, const std::string &why) { throw std::runtime_error(why + ": " + in.text); }

struct Launch {
    const Kernel &kernel;
    std::map<std::string, std::uint64_t> arguments;
    std::vector<char> shared;  // of the running block
};

// An asynchronous copy of a lane (cp.async), and the copies that it has not waited for yet.
struct Copy {
    char *to;
    const char *from;
    std::size_t bytes, given;  // the rest is 0
};
struct Copies {
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
};

class Warp {
public:
    explicit Warp(Launch &launch) : launch_(launch) {}

    // Starts a block, before its first instruction.
    void begin(const unsigned (&index)[3], const unsigned (&size)[3], unsigned first, unsigned threads) {
        registers_.values.assign(static_cast<std::size_t>(launch_.kernel.places) * lanes, 0xdeadbeef);
        for (Copies &c : copies_) c.open.clear(), c.groups.clear();
        for (const auto &[place, bits] : launch_.kernel.constants) std::fill_n(registers_.of(place), lanes, bits);
        for (int lane = 0; lane < lanes; lane++) {
            const unsigned thread = first + static_cast<unsigned>(lane);
            at_[lane] = thread < threads ? 0 : finished;
            const unsigned of[] = {thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]};
            for (const auto &[place, name] : launch_.kernel.specials) {
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

    // Runs up to the next barrier (true) or to the end (false).
    bool run() {
        for (;;) {
            const int furthest_behind = *std::min_element(at_, at_ + lanes);
            if (furthest_behind == finished) return false;
            std::uint32_t here = 0;
            int others = finished;  // instruction of the next lanes
            for (int lane = 0; lane < lanes; lane++)
                if (at_[lane] == furthest_behind)
                    here |= std::uint32_t(1) << lane;
                else
                    others = std::min(others, at_[lane]);
            if (run_together(here, furthest_behind, others)) return true;
        }
    }

private:
    // Runs these lanes until they diverge, or meet or pass others; true: until a barrier.
    bool run_together(std::uint32_t here, int at, int others) {
        while (at < others) {
            const Instruction &in = launch_.kernel.code[static_cast<std::size_t>(at++)];
            const std::uint32_t mask = in.predicate < 0 ? here : here & taken(in);
            if (in.kind == Kind::barrier) {
                stand(here, at);
                if (here != running()) fail(in, "a barrier that not all lanes reach");
                return true;
            }
            if (in.kind != Kind::branch && in.kind != Kind::finish) {
                step(in, mask);
                continue;
            }
            const int next = in.kind == Kind::branch ? in.target : finished;
            if (mask == here) {
                at = next;
            } else if (mask) {
                stand(mask, next);
                stand(here & ~mask, at);
                return false;
            }
        }
        stand(here, at);
        return false;
    }

    void stand(std::uint32_t mask, int at) {
        each_lane(mask, [&](int lane) { at_[lane] = at; });
    }

    // Lanes whose predicate holds.
    std::uint32_t taken(const Instruction &in) {
        const std::uint64_t *predicate = registers_.of(in.predicate);
        std::uint32_t mask = 0;
        for (int lane = 0; lane < lanes; lane++) mask |= static_cast<std::uint32_t>(predicate[lane] & 1) << lane;
        return in.negated ? ~mask : mask;
    }

    std::uint32_t running() const {
        std::uint32_t all = 0;
        for (int lane = 0; lane < lanes; lane++) all |= std::uint32_t(at_[lane] != finished) << lane;
        return all;
    }

    void step(const Instruction &in, std::uint32_t mask) {
        switch (in.kind) {
        case Kind::computed: return in.computes(registers_, in, mask);
        case Kind::parameter: return read_parameter(in, mask);
        case Kind::load:
        case Kind::store: return move_memory(in, mask);
        case Kind::exchange: return exchange(in, mask);
        case Kind::multiply_f16: return multiply(in, mask, elements_of_f16);
        case Kind::multiply_bf16: return multiply(in, mask, elements_of_bf16);
        case Kind::multiply_tf32: return multiply(in, mask, elements_of_tf32);
        case Kind::load_matrices:
        case Kind::load_transposed: return load_fragments(in, mask);
        case Kind::copy: return copy(in, mask);
        case Kind::close_copies: return close_copies(mask);
        case Kind::wait_for_copies: return wait_for_copies(in, mask);
        default:
            if (mask) fail(in, "not known here");
        }
    }

    void read_parameter(const Instruction &in, std::uint32_t mask) {
        const std::uint64_t value = launch_.arguments.at(in.operands[1].symbol);
        std::uint64_t *result = registers_.of(in.operands[0].places[0]);
        each_lane(mask, [&](int lane) { result[lane] = value; });
    }

    void move_memory(const Instruction &in, std::uint32_t mask) {
        // A signed number fills the register with its sign.
        const bool is_signed = in.type[0] == 's';
        switch (in.bytes) {
        case 1: return is_signed ? move_elements<std::int8_t>(in, mask) : move_elements<std::uint8_t>(in, mask);
        case 2: return is_signed ? move_elements<std::int16_t>(in, mask) : move_elements<std::uint16_t>(in, mask);
        case 4: return move_elements<std::uint32_t>(in, mask);
        case 8: return move_elements<std::uint64_t>(in, mask);
        default: fail(in, "not known here");
        }
    }
    template<typename T> void move_elements(const Instruction &in, std::uint32_t mask) {
        const bool store = in.kind == Kind::store;
        const Operand &place = in.operands[store ? 0 : 1];
        const std::vector<Place> &values = in.operands[store ? 1 : 0].places;
        const std::size_t bytes = sizeof(T) * values.size();
        each_lane(mask, [&](int lane) {
            const std::uint64_t base = address(place, lane);
            if (base % bytes) fail(in, "a vector that is not aligned");
            char *at = memory(in, base, bytes);
            for (const Place p : values) {
                std::uint64_t &value = registers_.at(p, lane);
                T element = static_cast<T>(value);
                if (store)
                    std::memcpy(at, &element, sizeof(T));
                else
                    std::memcpy(&element, at, sizeof(T)), value = element;
                at += sizeof(T);
            }
        });
    }
    char *memory(const Instruction &in, std::uint64_t address, std::size_t size) const {
        if (!in.shared) return reinterpret_cast<char *>(address);
        if (address + size > launch_.shared.size()) fail(in, "beyond shared memory");
        return launch_.shared.data() + address;
    }

    std::uint64_t address(const Operand &operand, int lane) {
        return (operand.places.empty() ? 0 : registers_.at(operand.places[0], lane)) +
               static_cast<std::uint64_t>(operand.offset);
    }

    void load_fragments(const Instruction &in, std::uint32_t mask) {
        if (mask != all_lanes) fail(in, "lanes are missing where matrices are loaded");
        constexpr std::size_t row = 16;
        const char *rows[lanes];
        for (int lane = 0; lane < lanes; lane++) {
            const std::uint64_t at = address(in.operands[1], lane);
            if (at % row) fail(in, "a row that is not aligned");
            rows[lane] = memory(in, at, row);
        }
        load_matrices(registers_, in, rows, in.kind == Kind::load_transposed);
    }

    // Copies as late as the manual allows: when the lane waits for the group. Until then the target holds neither its old nor
    // its new contents.
    void copy(const Instruction &in, std::uint32_t mask) {
        constexpr std::size_t size = 16;
        each_lane(mask, [&](int lane) {
            auto number = [&](std::size_t n) { return registers_.at(in.operands[n].places[0], lane) & 0xffffffff; };
            const std::uint64_t to = address(in.operands[0], lane), from = address(in.operands[1], lane);
            const std::size_t given = in.operands.size() > 3 ? number(3) : size;
            if (number(2) != size || given > size || to % size || from % size) fail(in, "size or alignment");
            char *target = memory(in, to, size);
            std::memset(target, unknown_byte, size);
            copies_[lane].open.push_back({target, reinterpret_cast<const char *>(from), size, given});
        });
    }
    void close_copies(std::uint32_t mask) {
        each_lane(mask, [&](int lane) {
            copies_[lane].groups.push_back(std::move(copies_[lane].open));
            copies_[lane].open.clear();
        });
    }
    void wait_for_copies(const Instruction &in, std::uint32_t mask) {
        each_lane(mask, [&](int lane) {
            auto &groups = copies_[lane].groups;
            const auto left = registers_.at(in.operands[0].places[0], lane);
            for (; groups.size() > left; groups.erase(groups.begin()))
                for (const Copy &c : groups.front()) {
                    std::memset(c.to, 0, c.bytes);
                    std::memcpy(c.to, c.from, c.given);
                }
        });
    }

    // Exchanges values between lanes, all of which must take part.
    void exchange(const Instruction &in, std::uint32_t mask) {
        if (mask != all_lanes) fail(in, "lanes are missing in an exchange");
        std::uint64_t before[lanes];
        std::copy_n(registers_.of(in.operands[1].places[0]), lanes, before);
        std::uint64_t *result = registers_.of(in.operands[0].places[0]);
        const std::uint64_t *distance = registers_.of(in.operands[2].places[0]);
        for (int lane = 0; lane < lanes; lane++) {
            const auto other = static_cast<unsigned>(lane) ^ static_cast<unsigned>(distance[lane]);
            result[lane] = before[other % lanes];
        }
    }

    void multiply(const Instruction &in, std::uint32_t mask, ElementsOf elements) {
        if (mask != all_lanes) fail(in, "lanes are missing in a product of matrices");
        multiply_matrices(registers_, in, elements);
    }

    Launch &launch_;
    Registers registers_;
    int at_[lanes];
    Copies copies_[lanes];
};

}  // namespace

long run(const Kernel &kernel, const unsigned (&grid)[3], const unsigned (&size)[3], unsigned shared_bytes, void **given) {
    Launch launch{kernel, {}, {}};
    for (std::size_t n = 0; n < kernel.parameters.size(); n++) {
        std::uint64_t value = 0;
        std::memcpy(&value, given[n], static_cast<std::size_t>(kernel.parameters[n].bytes));
        launch.arguments[kernel.parameters[n].name] = value;
    }
    const unsigned threads = size[0] * size[1] * size[2];
    // Warps, whose memory is reused for all blocks.
    std::vector<Warp> warps((threads + lanes - 1) / lanes, Warp(launch));
    unsigned index[3];
    long barriers = 0;
    for (index[2] = 0; index[2] < grid[2]; index[2]++)
        for (index[1] = 0; index[1] < grid[1]; index[1]++)
            for (index[0] = 0; index[0] < grid[0]; index[0]++) {
                launch.shared.assign(shared_bytes, unknown_byte);
                for (std::size_t n = 0; n < warps.size(); n++)
                    warps[n].begin(index, size, static_cast<unsigned>(n) * lanes, threads);
                // First to last, and last to first up to the next barrier: where a barrier is missing, a warp reads values that
                // another has not written yet, or overwrites values that it still reads.
                for (bool more = true, forward = true; more; forward = !forward) {
                    more = false;
                    for (std::size_t n = 0; n < warps.size(); n++)
                        more = warps[forward ? n : warps.size() - 1 - n].run() || more;
                    barriers += more;
                }
            }
    return barriers;
}

}  // namespace ptx
