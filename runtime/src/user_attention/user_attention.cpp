// SPDX-License-Identifier: MIT
// Calls of a user's attention: checks of its captures, and the kernels by the library's own path.
#include "attune/detail/user_attention.h"
#include "attention/sdpa_call.h"
#include "user_attention/user_call.h"
#include <cmath>
#include <limits>

namespace attune {
namespace {

Status check_capture(const CaptureRecord &record, const CaptureArgument &given, DType type) {
    const DType expected = type_of(record, type);
    if (record.rank == 0) {
        if (!given.number) return invalid(record.name, "must be given");
        if (record.of_scores || expected != DType::i32) return check_number(record.name, *given.number, expected);
        constexpr double least = std::numeric_limits<std::int32_t>::min(), most = std::numeric_limits<std::int32_t>::max();
        if (*given.number >= least && *given.number <= most && *given.number == std::trunc(*given.number)) return {};
        return invalid(record.name, "must be a whole number of 32 bits, got " + text(*given.number));
    }
    const ConstView &v = given.buffer;
    if (!v.given()) return invalid(record.name, "must be given");
    if (v.rank != record.rank) return invalid(record.name, "rank must be " + text(record.rank) + ", got " + text(v.rank));
    if (v.dtype != expected)
        return invalid(record.name, std::string("type must be ") + name_of(expected) + ", got " + name_of(v.dtype));
    if (Status s = check_memory(record.name, v); !s.ok()) return s;
    if (Status s = check_dense(record.name, v); !s.ok()) return s;
    for (int n = 0; n < v.rank; n++)
        if (v.extent[n] == 0) return invalid(record.name, "extent " + text(n) + " is 0");
    return {};
}

}  // namespace

Status check_captures(const UserCall &user, DType type, std::vector<NamedView> &inputs) {
    for (std::size_t n = 0; n < user.captures.size(); n++) {
        const CaptureRecord &record = user.attention->captures[n];
        if (Status s = check_capture(record, user.captures[n], type); !s.ok()) return s;
        inputs.push_back({record.name, user.captures[n].buffer});
    }
    return {};
}

Status check_user_options(const AttentionRecord &attention, const SdpaOptions &options) {
    if (options.score != Score::dot_product)
        return invalid("score", "must be dot_product: " + std::string(attention.name) + " has a score of its own");
    if (options.score_weight.given()) return invalid("score_weight", "given without Score::general");
    return {};
}

Status in_words(const AttentionRecord &attention, Status status) {
    if (status.ok() || status.code() != StatusCode::internal) return status;
    const std::string message(status.message());
    for (const CaptureRecord &c : attention.captures)
        if (message.find("capture_" + std::string(c.name)) != std::string::npos)
            return invalid(c.name,
                           "is too small: " + std::string(attention.name) + " reads beyond its extents (" + message + ")");
    return status;
}

std::vector<NamedView> named_captures(const UserCall &user) {
    std::vector<NamedView> all;
    for (std::size_t n = 0; n < user.captures.size(); n++)
        all.push_back({user.attention->captures[n].name, user.captures[n].buffer});
    return all;
}

Status prepare_user_call(const Context::State &state, const UserCall &user, const ConstView &query, const ConstView &key,
                         const ConstView &value, const View &out, const SdpaOptions &options, SdpaCall &call,
                         AttentionChoice &choice) {
    if (Status s = check_user_options(*user.attention, options); !s.ok()) return s;
    std::vector<NamedView> inputs;
    if (Status s = check_real("query", query); !s.ok()) return s;
    if (Status s = check_captures(user, query.dtype, inputs); !s.ok()) return s;
    if (Status s = check_attention(query, key, value, out, options, inputs, call); !s.ok()) return s;
    call.op = op_of_user(user.attention->op);
    call.user = &user;
    call.scale = scale_of(options, call.sizes.head_dim);
    return choose_attention(state, call, options.variant, choice);
}

Status run_user_call(Context &context, Context::State &state, const UserCall &user, const ConstView &query,
                     const ConstView &key, const ConstView &value, const View &out, const SdpaOptions &options,
                     std::string_view why_here) {
    const CallStart start = start_of_call();
    SdpaCall call;
    AttentionChoice choice;
    if (Status s = prepare_user_call(state, user, query, key, value, out, options, call, choice); !s.ok()) return s;
    if (Status s = run_attention(context, call, choice); !s.ok()) return in_words(*user.attention, std::move(s));
    if (!why_here.empty()) choice.values.reason = why_here;
    record_call(state, choice.values, call.op.name, start, [&] { return sizes_text(call.sizes); });
    return {};
}

Status check_captures_read(Context::State &state, const UserCall &user, const ConstView &query, const ConstView &key,
                           const ConstView &value, const View &out, const SdpaOptions &options) {
    SdpaCall call;
    AttentionChoice choice;
    if (Status s = prepare_user_call(state, user, query, key, value, out, options, call, choice); !s.ok()) return s;
    if (!choice.values.variant) return {};
    return in_words(*user.attention, check_captures_of_kernel(state, call, *choice.values.variant));
}

namespace {

Status run_on_device(Context &context, const UserCall &user, const ConstView &query, const ConstView &key,
                     const ConstView &value, const View &out, const SdpaOptions &options) {
    const AttentionRecord &attention = *user.attention;
    if (Status s = check_user_options(attention, options); !s.ok()) return s;
    if (Status s = check_real("query", as_host(query)); !s.ok()) return s;
    const std::vector<CaptureArgument> captures = as_host(user.captures);
    std::vector<NamedView> checked;
    if (Status s = check_captures({&attention, captures, nullptr}, query.dtype, checked); !s.ok()) return s;
    Status s = attention_on_device(context, query, key, value, out, options, named_captures(user), [&](SdpaCall &call) {
        call.op = op_of_user(attention.op);
        call.user = &user;
        call.scale = scale_of(options, call.sizes.head_dim);
        return Status();
    });
    return in_words(attention, std::move(s));
}

Status run(Context &context, Context::State &state, const UserCall &user, const ConstView &query, const ConstView &key,
           const ConstView &value, const View &out, const SdpaOptions &options) {
    if (query.place != Place::device) return run_user_call(context, state, user, query, key, value, out, options);
    std::string instead;
    if (Status s = find_device(state, "query", instead); !s.ok()) return s;
    if (instead.empty()) return run_on_device(context, user, query, key, value, out, options);
    const std::vector<CaptureArgument> captures = as_host(user.captures);
    return run_user_call(context, state, {user.attention, captures, user.block_mask}, as_host(query), as_host(key),
                         as_host(value), as_host(out), as_host(options), instead);
}

}  // namespace

namespace detail {

Status run_user_attention(Context &context, const AttentionRecord &attention, const ConstView &query, const ConstView &key,
                          const ConstView &value, const View &out, const SdpaOptions &options,
                          ArrayView<const CaptureArgument> captures, BlockMask *block_mask) noexcept {
    const auto body = [&](Context::State &state, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const SdpaOptions &given, std::span<const CaptureArgument> of_captures) {
        return run(context, state, {&attention, of_captures, block_mask}, q, k, v, o, given);
    };
    return answer(context, body, query, key, value, out, options, captures);
}

}  // namespace detail
}  // namespace attune
