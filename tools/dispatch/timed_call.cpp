// SPDX-License-Identifier: MIT
#include "timed_call.h"
#include "bench/cases/case.h"
#include "problems.h"
#include "tools/error.h"
#include "tools/tune/machine.h"
#include <attune/additive.h>
#include <attune/linear.h>
#include <attune/sdpa.h>
#include <thread>
#include <vector>

namespace attune::dispatch {
namespace {

void check(const Status &status, const std::string &variant) {
    if (!status.ok()) throw program::MachineError(variant, status.message());
}

class HostCall final : public TimedCall {
public:
    HostCall(Context &context, const bench::Shape &shape) : context_(context), case_(bench::make_case(shape)) {}

    Status call(const std::string &variant) override { return case_->call(context_, variant); }
    double sample(const std::string &variant, double least_seconds) override {
        const double start = seconds_now();
        double seconds = 0;
        int calls = 0;
        do {
            check(call(variant), variant);
            calls++, seconds = seconds_now() - start;
        } while (seconds < least_seconds);
        return seconds / calls;
    }

private:
    Context &context_;
    std::unique_ptr<bench::Case> case_;
};

class DeviceCall final : public TimedCall {
public:
    DeviceCall(const Device &device, Context &context, const bench::Shape &shape)
        : device_(device), context_(context), shape_(shape) {
        const bench::Shape &s = shape_;
        const bench::Options &o = s.options;
        if (o.mask || o.alibi || o.softcap || o.sinks || o.weights || !s.lengths.empty())
            throw program::InputError(s.label(),
                                      "calls on a device are timed with bias, dropout, causal masks and windows alone");
        if (s.op == "linear") {
            query_ = tensor({1, 1, s.b * s.q, s.d}), key_ = tensor({1, 1, s.dv, s.d}), out_ = tensor({1, 1, s.b * s.q, s.dv});
            return;
        }
        query_ = tensor({s.b, s.h, s.q, s.d}), key_ = tensor({s.b, s.kv, s.k, s.d}), value_ = tensor({s.b, s.kv, s.k, s.dv});
        out_ = tensor({s.b, s.h, s.q, s.dv});
        if (s.options.bias) bias_ = tensor({1, 1, s.q, s.k});
        if (s.op == "additive") weight_ = tensor({s.d});
    }

    Status call(const std::string &variant) override {
        const bench::Shape &s = shape_;
        if (s.op == "linear") return linear(context_, rows(query_), rows(key_), {}, rows(out_), {.variant = variant});
        SdpaOptions options{.bias = bias_, .causal = s.causal ? Causal::bottom_right : Causal::none, .window = s.window};
        if (s.options.dropout) options.dropout = {.probability = 0.1, .seed = 1};
        options.variant = variant;
        if (s.op != "additive") return scaled_dot_product_attention(context_, query_, key_, value_, out_, options);
        AdditiveOptions additive;
        additive.w_score = weight_, additive.attention = options;
        return additive_attention(context_, query_, key_, value_, out_, additive);
    }

    // Twice as many calls each time, until they take long enough: a call returns before it is computed.
    double sample(const std::string &variant, double least_seconds) override {
        device_.finish();
        for (int calls = 1;; calls *= 2) {
            const double start = seconds_now();
            for (int n = 0; n < calls; n++) check(call(variant), variant);
            device_.finish();
            const double seconds = seconds_now() - start;
            if (seconds >= least_seconds) return seconds / calls;
        }
    }

private:
    View tensor(std::initializer_list<std::int64_t> extents) {
        View v(static_cast<float *>(nullptr), extents);
        v.dtype = shape_.dtype;
        auto bytes = static_cast<std::size_t>(size_of(v.dtype));
        for (const std::int64_t extent : extents) bytes *= static_cast<std::size_t>(extent);
        const bench::MappedArray values(bytes);
        constexpr std::uint64_t seed = 1;
        if (v.dtype == DType::bf16)
            bench::fill<bench::BFloat16>(values, seed);
        else if (v.dtype == DType::f16)
            bench::fill<bench::Float16>(values, seed);
        else
            bench::fill<float>(values, seed);
        memory_.push_back(device_.memory(bytes, values.as<char>()));
        v.data = memory_.back().get(), v.place = Place::device;
        return v;
    }
    static View rows(View v) {
        v.rank = 2;
        for (int n : {0, 1}) v.extent[n] = v.extent[n + 2], v.stride[n] = v.stride[n + 2];
        return v;
    }

    const Device &device_;
    Context &context_;
    bench::Shape shape_;
    std::vector<Device::Memory> memory_;
    View query_, key_, value_, out_, bias_, weight_;
};

}  // namespace

TimedMachine TimedMachine::device() {
    check_device_kernels();
    TimedMachine machine(1);
    machine.device_ = std::make_unique<Device>();
    machine.context_ = Context(ContextOptions{.threads = 1, .device = {.cuda_device = 0}});
    return machine;
}
TimedMachine TimedMachine::of(bool device, int threads) {
    if (device) return TimedMachine::device();
    return TimedMachine(threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency()));
}

std::string TimedMachine::hardware() const { return device_ ? device_->name() : tune::hardware(); }
std::string TimedMachine::description() const {
    if (device_) return device_->name();
    const int threads = context_.threads();
    return tune::hardware() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}
double TimedMachine::seconds_of_others() const { return device_ ? 0 : bench::cpu_seconds_of_others(); }

std::unique_ptr<TimedCall> TimedMachine::call_of(const bench::Shape &shape) {
    if (device_) return std::make_unique<DeviceCall>(*device_, context_, shape);
    return std::make_unique<HostCall>(context_, shape);
}

}  // namespace attune::dispatch
