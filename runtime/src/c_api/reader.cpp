// SPDX-License-Identifier: MIT
#include "c_api/reader.h"
#include "c_api/structs.h"
#include <algorithm>

namespace attune::c_api {

std::string text(const Name &name) { return name.of ? text(*name.of) + "." + name.name : name.name; }

void Reader::refuse(const Name &name, const std::string &what) {
    if (ok()) status_ = {StatusCode::invalid_argument, text(name) + ": " + what};
}

bool Reader::must_be_given(const void *given, const Name &name) {
    if (!given) refuse(name, "must be given");
    return given;
}

bool Reader::flag(std::int32_t number, const Name &name) {
    if (number != 0 && number != 1) refuse(name, "must be 0 or 1, got " + std::to_string(number));
    return number == 1;
}

void Reader::reserved(std::int32_t number, const Name &name) {
    if (number != 0) refuse(name, "must be 0, got " + std::to_string(number));
}

std::int32_t Reader::number_of(std::int32_t number, std::span<const std::string_view> names, const Name &name) {
    if (number >= 0 && static_cast<std::size_t>(number) < names.size()) return number;
    std::string list;
    for (std::size_t n = 0; n < names.size(); n++)
        list += (n ? ", " : "") + std::to_string(n) + " (" + std::string(names[n]) + ")";
    refuse(name, "must be one of " + list + ", got " + std::to_string(number));
    return 0;
}

View Reader::view(const attune_tensor *given, const Name &name) {
    View view;
    if (!given || given->rank == 0) return view;
    if (given->rank < 0 || given->rank > max_rank) {
        refuse(name, "rank must be from 0 to " + std::to_string(max_rank) + ", got " + std::to_string(given->rank));
        return view;
    }
    view.data = given->data;
    view.dtype = enumeration<DType>(given->dtype, names_of_dtype, {"dtype", &name});
    view.place = enumeration<Place>(given->place, names_of_place, {"place", &name});
    reserved(given->reserved, {"reserved", &name});
    view.rank = given->rank;
    view.capacity = given->capacity > 0 ? given->capacity : -1;
    std::copy_n(given->extents, view.rank, view.extent);
    std::copy_n(given->strides, view.rank, view.stride);
    return view;
}
ConstView Reader::input(const attune_tensor *given, const Name &name) { return view(given, name); }
View Reader::output(const attune_tensor *given, const Name &name) { return view(given, name); }

bool Reader::check_size(const void *given, std::size_t size, std::size_t known, std::span<const Member> members,
                        const Name &name) {
    const Name of_size{"size", &name};
    const auto got = [&] { return ", got " + std::to_string(size); };
    if (size < members.front().end) {
        refuse(of_size, "must be the sizeof of the struct, " + std::to_string(known) + " in this version" + got());
        return false;
    }
    for (const Member &m : members)
        if (m.begin < size && size < m.end) {
            refuse(of_size, "ends within a member" + got() + "; the struct has " + std::to_string(known) + " in this version");
            return false;
        }
    // Bound of a size that a newer header may have: another number is no size, and the bytes behind it may not exist.
    constexpr std::size_t most = 4096;
    if (size > most) {
        refuse(of_size, "must be at most " + std::to_string(most) + got());
        return false;
    }
    const auto *bytes = static_cast<const unsigned char *>(given);
    if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
        refuse(name, "has members set that this version, " + std::to_string(known) + " bytes, does not know; its size is " +
                         std::to_string(size));
        return false;
    }
    return true;
}

}  // namespace attune::c_api
