// SPDX-License-Identifier: MIT
// Reading of a C caller's arguments: tensors, enumerations, flags, and structs that begin with their size.
#pragma once
#include "attune/attune_c.h"
#include "attune/status.h"
#include "attune/tensor.h"
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune::c_api {

// The name of an argument, or of a member of one, in messages: "options.attention.size".
struct Name {
    const char *name;
    const Name *of = nullptr;
};
std::string text(const Name &);

// A member of a struct of C, from byte `begin` to byte `end`.
struct Member {
    std::size_t begin, end;
};
#define ATTUNE_MEMBER(type, member) \
    { offsetof(type, member), offsetof(type, member) + sizeof(type::member) }
template<std::size_t count> constexpr std::size_t end_of(const Member (&members)[count]) { return members[count - 1].end; }

// Reads arguments one by one, and keeps the first error.
class Reader {
public:
    bool ok() const { return status_.ok(); }
    Status status() { return std::move(status_); }

    ConstView input(const attune_tensor *, const Name &);
    View output(const attune_tensor *, const Name &);
    bool flag(std::int32_t, const Name &);
    void reserved(std::int32_t, const Name &);
    bool must_be_given(const void *, const Name &);
    template<typename Enum, std::size_t count>
    Enum enumeration(std::int32_t number, const std::string_view (&names)[count], const Name &name) {
        return static_cast<Enum>(number_of(number, names, name));
    }

    // Copies the members that the caller's size covers; others of `to` stay as they are, which is their defaults.
    template<typename Struct> bool copy(const Struct *from, Struct &to, std::span<const Member> members, const Name &name) {
        if (!check_size(from, from->size, sizeof(Struct), members, name)) return false;
        std::memcpy(&to, from, from->size < sizeof(Struct) ? from->size : sizeof(Struct));
        return true;
    }
    // Copies a struct of results into that of the caller, whose size was checked by copy() and stays.
    template<typename Struct> void copy_back(const Struct &from, Struct *to) {
        const std::size_t size = to->size < sizeof(Struct) ? to->size : sizeof(Struct);
        std::memcpy(reinterpret_cast<char *>(to) + sizeof to->size, reinterpret_cast<const char *>(&from) + sizeof to->size,
                    size - sizeof to->size);
    }
    void refuse(const Name &, const std::string &what);

    // A struct that a call fills in through a pointer, and its conversion, which finish() runs when the call has ended.
    template<typename Result, typename Write> Result *at_end(const Write &write) {
        auto filled = std::make_shared<Result>();
        at_end_.push_back([filled, write] { write(*filled); });
        return filled.get();
    }
    void finish() {
        for (const std::function<void()> &write : at_end_) write();
    }

private:
    View view(const attune_tensor *, const Name &);
    bool check_size(const void *, std::size_t given, std::size_t known, std::span<const Member>, const Name &);
    std::int32_t number_of(std::int32_t, std::span<const std::string_view> names, const Name &);
    Status status_;
    std::vector<std::function<void()>> at_end_;
};

}  // namespace attune::c_api
