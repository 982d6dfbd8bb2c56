// Attention of tensors on a device: checks of what can be known without reading them, choice, and arguments of the kernel
// (generators/sdpa/sdpa_lanes_generator.cpp).
#include "device_call.h"
#include <charconv>

namespace attune {
namespace {

// Kernels keep offsets on the device within `far`; an end of a band at `unbounded` is then still beyond all keys, and every sum
// stays within 32 bits.
constexpr std::int64_t far = std::int64_t(1) << 29, unbounded = 2 * far;

std::vector<NamedView> all_views(const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                                 const SdpaOptions &o) {
    std::vector<NamedView> all = named_inputs(query, key, value, o);
    all.insert(all.end(), {{"out", out}, {"lse", o.lse}, {"weights", o.weights}, {"score_weight", o.score_weight}});
    return all;
}

Status check_supported(const SdpaOptions &o, DType type) {
    if (type == DType::f64) return unsupported("query", "there are no kernels for f64 on a device");
    if (o.score != Score::dot_product) return unsupported("score", "tensors on a device take dot_product");
    if (o.weights.given()) return unsupported("weights", "are not computed on a device");
    if (o.dropout.probability != 0) return unsupported("dropout", "is not computed on a device");
    if (o.alibi && !o.alibi_slopes.given())
        return unsupported("alibi", "tensors on a device take alibi_slopes, on the device as well");
    return {};
}

// int32 (B) or, if by_query, (B, Sq), as (B, Sq). What it holds is not looked at: kernels keep to the keys whatever it is.
Status check_device_ints(std::string_view name, const ConstView &v, const SdpaProblem &p, bool by_query, ConstView &as2) {
    if (v.rank != 1 && !(by_query && v.rank == 2))
        return invalid(name, "rank must be 1 (B)" + std::string(by_query ? " or 2 (B, Sq)" : "") + ", got " + text(v.rank));
    if (Status s = check_ints(name, as_host(v)); !s.ok()) return s;
    if (Status s = check_extent(name, "batch (first extent)", v.extent[0], "query", p.batch); !s.ok()) return s;
    as2 = v;
    as2.rank = 2;
    if (v.rank == 1) as2.extent[1] = p.queries, as2.stride[1] = 0;
    return check_extent(name, "number of queries (last extent)", as2.extent[1], "query", p.queries);
}

struct Bands {
    std::int32_t begin, end, offset, length;
    ConstView offsets, lengths;  // (B), (B, Sq); not given: none
};

Status find_bands(const SdpaOptions &o, const SdpaProblem &p, Bands &bands) {
    const ConstView &offsets = o.cache_lens.given() ? o.cache_lens : o.offsets;
    const ConstView &lengths = o.cache_lens.given() ? o.cache_lens : o.valid_lens;
    if (p.queries + p.keys > far) return unsupported("key", "more than 2^29 queries and keys together");
    if (o.cache_lens.given() && (o.valid_lens.given() || o.offset || o.offsets.given()))
        return invalid("cache_lens", "given beside valid_lens, offset or offsets, which it implies");
    if (o.offset && o.offsets.given()) return invalid("offsets", "given beside offset; give one of them");
    bands.length = static_cast<std::int32_t>(o.cache_lens.given() ? p.queries : o.valid_lens.given() ? 0 : p.keys);
    if (lengths.given())
        if (Status s = check_device_ints(o.cache_lens.given() ? "cache_lens" : "valid_lens", lengths, p, !o.cache_lens.given(),
                                         bands.lengths);
            !s.ok())
            return s;
    if (!offsets.given()) {
        if (o.causal == Causal::offset && !o.offset) return invalid("offset", "must be given with Causal::offset");
        const Band band = band_of(o, o.offset, p.queries, p.keys);
        bands.begin = band.begin, bands.end = band.end;
        bands.offset = static_cast<std::int32_t>(std::clamp<std::int64_t>(band.offset, -far, far));
        return {};
    }
    if (Status s = check_device_ints(o.cache_lens.given() ? "cache_lens" : "offsets", offsets, p, false, bands.offsets);
        !s.ok())
        return s;
    const std::int64_t left = o.window.left, right = o.causal != Causal::none ? 0 : o.window.right;
    bands.begin = static_cast<std::int32_t>(left < 0 ? -unbounded : -std::min(left, unbounded));
    bands.end = static_cast<std::int32_t>(right < 0 ? unbounded : std::min(right + 1, unbounded));
    bands.offset = 0;
    return {};
}

// Rows that begin on 16 bytes.
bool aligned(const ConstView &v) {
    const std::int64_t size = size_of(v.dtype);
    bool all = reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
    for (int n = 0; n < v.rank - 1; n++) all = all && v.stride[n] * size % 16 == 0;
    return all;
}

int channels_of(const VariantRecord &v) {
    const std::size_t at = v.numbers.find("channels=");
    int channels = v.head_dim;
    if (at != std::string_view::npos) std::from_chars(v.numbers.data() + at + 9, v.numbers.data() + v.numbers.size(), channels);
    return channels;
}

bool fits(const VariantRecord &v, const SdpaCall &c) {
    const SdpaProblem &p = c.sizes;
    if (v.op != c.op || v.dtype != p.dtype || (v.kind == "plain" && p.scored)) return false;
    if (v.head_dim == 0) return std::max(p.head_dim, p.value_dim) <= channels_of(v);
    return v.head_dim == p.head_dim && v.head_dim == p.value_dim && aligned(c.query) && aligned(c.key) && aligned(c.value);
}

// The one of this head size, else the smallest of any size; rather one that multiplies matrices; and rather one that knows no
// more options than the call has.
bool better(const VariantRecord &a, const VariantRecord &b) {
    if (channels_of(a) != channels_of(b)) return channels_of(a) < channels_of(b);
    if ((a.head_dim == 0) != (b.head_dim == 0)) return b.head_dim == 0;
    if (a.schedule != b.schedule) return a.schedule == "mma";
    return a.kind == "plain" && b.kind != "plain";
}

Status choose(const Context::State &context, const SdpaCall &call, std::string_view variant, Choice &choice) {
    const std::string_view target = device_backend()->target;
    const Forced forced = forced_variant(context, variant, call.op);
    for (const VariantRecord *v : variant_records()) {
        if (v->target != target || !fits(*v, call)) continue;
        if (!forced.name.empty() ? v->name != forced.name : choice.variant && !better(*v, *choice.variant)) continue;
        choice = {v, forced.name.empty() ? "tensors on the device" : "forced", !forced.name.empty()};
    }
    if (choice.variant) return {};
    if (!forced.name.empty())
        return {StatusCode::invalid_argument, std::string(forced.by) + ": " + std::string(forced.name) + " is no variant of " +
                                                  std::string(target) +
                                                  " for the type, sizes, alignment and options of this call"};
    return {StatusCode::unsupported, std::string(call.op) + ": no variant of " + std::string(target) + " for " +
                                         name_of(call.sizes.dtype) + " and head sizes " + text(call.sizes.head_dim) + " and " +
                                         text(call.sizes.value_dim) + " is linked in"};
}

Status run_kernel(Context::State &context, const SdpaCall &c, const VariantRecord &variant, const Bands &bands) {
    const SdpaProblem &p = c.sizes;
    // What is not given is never used, but read: it stands for some memory of the call, with strides 0.
    auto instead = [&](DType type, std::initializer_list<std::int64_t> extents) {
        ConstView v = typed_view(c.query.data, type, extents, {0, 0, 0, 0});
        v.rank = static_cast<int>(extents.size());
        for (int n = 0; n < v.rank; n++) v.stride[n] = 0;
        return v;
    };
    auto given = [&](const ConstView &v, const ConstView &other) { return v.given() ? v : other; };
    auto table = [&](const ConstView &v, DType type) {
        ConstView t = given(v, instead(type, {p.batch, p.query_heads, p.queries, p.keys}));
        t.extent[3] = p.keys;
        return t;
    };
    // Without keys a kernel sees one of which nothing is valid.
    ConstView key = c.key, value = c.value;
    Bands b = bands;
    if (p.keys == 0) {
        key = instead(p.dtype, {p.batch, p.key_heads, 1, p.head_dim}),
        value = instead(p.dtype, {p.batch, p.key_heads, 1, p.value_dim});
        key.stride[3] = value.stride[3] = 1;
        b.length = 0, b.lengths = {};
    }
    View lse = c.lse;
    if (!lse.given()) {
        lse = View(static_cast<float *>(nullptr), {p.batch, p.query_heads, p.queries});
    }
    const bool has_offsets = b.offsets.given(), has_lengths = b.lengths.given();
    ConstView offsets = given(b.offsets, instead(DType::i32, {p.batch, 1}));
    offsets.rank = 1;
    const ConstView slopes = given(c.slopes, instead(DType::f32, {p.batch, p.query_heads}));
    HalideBuffer query_buffer(c.query), key_buffer(key), value_buffer(value), offsets_buffer(offsets),
        lengths_buffer(given(b.lengths, instead(DType::i32, {p.batch, p.queries}))), bias_buffer(table(c.bias, p.dtype)),
        slopes_buffer(slopes), mask_buffer(table(c.mask, DType::boolean)),
        sinks_buffer(given(c.sinks, instead(DType::f32, {p.query_heads}))), out_buffer(c.out), lse_buffer(lse, p.value_dim);
    float scale = static_cast<float>(c.scale), softcap = static_cast<float>(c.softcap);
    bool has[] = {has_offsets, has_lengths, c.bias.given(), c.slopes.given(), c.mask.given(), c.sinks.given()};

    DeviceCall call;
    call.kernel = variant.kernel;
    auto buffer = [&](HalideBuffer &of) {
        // Kernels for devices take bf16 as its bits.
        if (of.get()->type.code == halide_type_bfloat) of.get()->type.code = halide_type_uint;
        call.args.push_back(of.get());
        call.buffers.push_back(of.get());
    };
    call.args = {nullptr};
    buffer(query_buffer), buffer(key_buffer), buffer(value_buffer);
    call.args.insert(call.args.end(), {&scale, &b.begin, &b.end, &b.offset, &b.length, &has[0], &has[1]});
    buffer(offsets_buffer), buffer(lengths_buffer);
    if (variant.kind == "scored") {
        call.args.insert(call.args.end(), {&softcap, &has[2]}), buffer(bias_buffer);
        call.args.push_back(&has[3]), buffer(slopes_buffer);
        call.args.push_back(&has[4]), buffer(mask_buffer);
        call.args.push_back(&has[5]), buffer(sinks_buffer);
    }
    buffer(out_buffer), buffer(lse_buffer);
    if (!c.lse.given()) {
        call.scratch = lse_buffer.get();
        call.scratch_bytes = static_cast<std::size_t>(p.batch * p.query_heads * p.queries * size_of(DType::f32));
    }
    return device_backend()->run(context, call);
}

}  // namespace

SdpaOptions as_host(const SdpaOptions &options) {
    SdpaOptions o = options;
    for (ConstView *v :
         {&o.score_weight, &o.bias, &o.alibi_slopes, &o.mask, &o.offsets, &o.valid_lens, &o.cache_lens, &o.sinks})
        v->place = Place::host;
    o.lse.place = o.weights.place = Place::host;
    return o;
}

Status sdpa_on_device(Context &caller, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                      const SdpaOptions &options, std::string &instead) {
    const CallStart start = start_of_call();
    Context::State &context = caller.state();
    const DeviceBackend *backend = device_backend();
    const std::string missing = backend ? backend->missing() : "this build has no kernels for a device (preset cuda)";
    if (!missing.empty()) {
        if (context.device.cpu_instead) instead = "tensors on a device, but " + missing;
        return context.device.cpu_instead ? Status() : unsupported("query", "is on a device, but " + missing);
    }
    for (const NamedView &v : all_views(query, key, value, out, options))
        if (v.view.given() && v.view.place != Place::device) return invalid(v.name, "is on the host, query is on a device");
    if (Status s = check_supported(options, query.dtype); !s.ok()) return s;
    // All but what would be read is checked as for the host.
    SdpaOptions o = as_host(options);
    o.valid_lens = o.offsets = o.cache_lens = {};
    if (options.offsets.given() || options.cache_lens.given()) o.causal = Causal::none;
    SdpaCall call;
    if (Status s = check_attention(as_host(query), as_host(key), as_host(value), as_host(out), o, {}, call); !s.ok()) return s;
    Bands bands;
    if (Status s = find_bands(options, call.sizes, bands); !s.ok()) return s;
    const SdpaProblem &p = call.sizes;
    Choice choice = {nullptr, "no queries"};
    if (p.batch > 0 && p.query_heads > 0 && p.queries > 0) {
        call.scale = scale_of(options, p.head_dim);
        if (Status s = choose(context, call, options.variant, choice); !s.ok()) return s;
        if (Status s = run_kernel(context, call, *choice.variant, bands); !s.ok()) return s;
    }
    record_call(context, choice, call.op, start, [&] { return sizes_text(p); });
    return {};
}

}  // namespace attune
