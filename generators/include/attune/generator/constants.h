// SPDX-License-Identifier: MIT
// Constants of an author's formula. A C++ double beside Halide's expressions takes the type of the kernel, where Halide would
// ask for a cast: 0.1 has all its digits in a kernel of f64, and makes no kernel of f32 compute in f64.
#pragma once
#include <Halide.h>
#include <concepts>
#include <set>

namespace attune {

// Type of the scores of the kernel that is being made: double for f64, else float.
inline thread_local Halide::Type type_of_scores = Halide::Float(32);

// Constants that were given as doubles; constants given as floats are not among them.
inline std::set<double> &given_doubles() {
    static std::set<double> given;
    return given;
}

inline Halide::Expr number(double value, Halide::Type type) {
    given_doubles().insert(value);
    return Halide::Internal::make_const(type, value);
}
// A constant of the type of the scores.
inline Halide::Expr number(double value) { return number(value, type_of_scores); }
// A constant of the type of the expression beside it if that type has more digits than the scores', else of theirs.
inline Halide::Expr number_beside(const Halide::Expr &other, double value) {
    const Halide::Type type = other.type();
    return number(value, type.is_float() && type.bits() > type_of_scores.bits() ? type : type_of_scores);
}

template<typename T>
concept Double = std::same_as<T, double>;

}  // namespace attune

// Overloads in namespace Halide, where argument-dependent lookup finds them.
namespace Halide {

#define ATTUNE_OF_DOUBLE(name) \
    template<attune::Double T> Expr name(const Expr &a, T b) { return name(a, attune::number_beside(a, b)); } \
    template<attune::Double T> Expr name(T a, const Expr &b) { return name(attune::number_beside(b, a), b); }
ATTUNE_OF_DOUBLE(operator+)
ATTUNE_OF_DOUBLE(operator-)
ATTUNE_OF_DOUBLE(operator*)
ATTUNE_OF_DOUBLE(operator/)
ATTUNE_OF_DOUBLE(operator<)
ATTUNE_OF_DOUBLE(operator>)
ATTUNE_OF_DOUBLE(operator<=)
ATTUNE_OF_DOUBLE(operator>=)
ATTUNE_OF_DOUBLE(operator==)
ATTUNE_OF_DOUBLE(operator!=)
ATTUNE_OF_DOUBLE(min)
ATTUNE_OF_DOUBLE(max)
ATTUNE_OF_DOUBLE(pow)
#undef ATTUNE_OF_DOUBLE

template<attune::Double T> Expr &operator+=(Expr &a, T b) { return a = a + b; }
template<attune::Double T> Expr &operator-=(Expr &a, T b) { return a = a - b; }
template<attune::Double T> Expr &operator*=(Expr &a, T b) { return a = a * b; }
template<attune::Double T> Expr &operator/=(Expr &a, T b) { return a = a / b; }

template<attune::Double T> Expr clamp(const Expr &a, T low, T high) {
    return clamp(a, attune::number_beside(a, low), attune::number_beside(a, high));
}
template<attune::Double T> Expr clamp(const Expr &a, const Expr &low, T high) {
    return clamp(a, low, attune::number_beside(a, high));
}
template<attune::Double T> Expr clamp(const Expr &a, T low, const Expr &high) {
    return clamp(a, attune::number_beside(a, low), high);
}
template<attune::Double T> Expr select(const Expr &condition, const Expr &a, T b) {
    return select(condition, a, attune::number_beside(a, b));
}
template<attune::Double T> Expr select(const Expr &condition, T a, const Expr &b) {
    return select(condition, attune::number_beside(b, a), b);
}
template<attune::Double T> Expr select(const Expr &condition, T a, T b) {
    return select(condition, attune::number(a), attune::number(b));
}

}  // namespace Halide
