// SPDX-License-Identifier: MIT
// Attentions that users wrote, by their names, and captures, by theirs.
#pragma once
#include "attune/detail/user_attention.h"
#include "c_api/run.h"
#include "c_api/structs.h"

struct attune_block_mask {
    attune::BlockMask blocks;
};

namespace attune::c_api {

inline const detail::AttentionRecord *attention_of(Reader &reader, const char *name) {
    if (!reader.must_be_given(name, {"name"})) return nullptr;
    const detail::AttentionRecord *attention = detail::find_attention("user_" + std::string(name));
    if (!attention) reader.refuse({"name"}, "no attention is linked in or loaded that is called " + std::string(name));
    return attention;
}

// The values given for the captures of an attention, in the order of its struct; captures are found by their names.
template<typename Given, typename Value, typename Read>
std::vector<Value> by_name(Reader &reader, const detail::AttentionRecord &attention, const Given *given, std::size_t count,
                           const char *argument, const Read &read_one) {
    std::vector<Value> values(attention.captures.size());
    if (count && !reader.must_be_given(given, {argument})) return values;
    for (std::size_t n = 0; n < count; n++) {
        if (!reader.must_be_given(given[n].name, {"name", nullptr})) return values;
        std::size_t at = 0;
        while (at < values.size() && attention.captures[at].name != given[n].name) at++;
        if (at < values.size())
            values[at] = read_one(given[n]);
        else
            reader.refuse({argument}, std::string(attention.name) + " has no capture " + given[n].name);
    }
    return values;
}

inline std::vector<detail::CaptureArgument> read_captures(Reader &reader, const detail::AttentionRecord &attention,
                                                          const attune_capture *given, std::size_t count) {
    const auto read_one = [&](const attune_capture &c) {
        detail::CaptureArgument to;
        to.buffer = reader.input(c.buffer, {c.name});
        if (c.number) to.number = *c.number;
        return to;
    };
    return by_name<attune_capture, detail::CaptureArgument>(reader, attention, given, count, "captures", read_one);
}

inline std::vector<View> read_capture_gradients(Reader &reader, const detail::AttentionRecord &attention,
                                                const attune_capture_gradient *given, std::size_t count) {
    const auto read_one = [&](const attune_capture_gradient &c) { return reader.output(c.gradient, {c.name}); };
    return by_name<attune_capture_gradient, View>(reader, attention, given, count, "capture_gradients", read_one);
}

}  // namespace attune::c_api
