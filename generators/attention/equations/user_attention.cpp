// SPDX-License-Identifier: MIT
#include "generators/attention/equations/user_attention.h"
#include "generators/arguments/user_arguments.h"
#include "generators/math/philox.h"
#include <charconv>
#include <cmath>
#include <set>

namespace attune {
using namespace Halide;

namespace {

// Function-local, because the constructor that registers the attention may run before this file's.
std::function<UserAttention()> &maker() {
    static std::function<UserAttention()> make;
    return make;
}

// Prefix of captures' input names, to keep them apart from the inputs that every attention has.
const std::string prefix = "capture_";

[[noreturn]] void refuse(const std::string &why) { throw CompileError("attune: " + why); }

// Whether an expression reads something that is not a constant.
class Reads : public Internal::IRVisitor {
public:
    bool anything = false;

private:
    using Internal::IRVisitor::visit;
    void visit(const Internal::Variable *) override { anything = true; }
    void visit(const Internal::Call *op) override {
        if (op->call_type == Internal::Call::Halide || op->call_type == Internal::Call::Image) anything = true;
        Internal::IRVisitor::visit(op);
    }
};

// Captures whose elements depend on the score: the derivative by the pair alone is not theirs.
class ReadsByScore : public Internal::IRVisitor {
public:
    std::string capture;
    explicit ReadsByScore(std::string score) : score_(std::move(score)) {}

private:
    std::string score_;
    using Internal::IRVisitor::visit;
    void visit(const Internal::Call *op) override {
        if (op->call_type == Internal::Call::Halide || op->call_type == Internal::Call::Image)
            for (const Expr &index : op->args)
                if (Internal::expr_uses_var(index, score_)) capture = op->name.substr(prefix.size());
        Internal::IRVisitor::visit(op);
    }
};

// Read by a call of the buffer itself and not of a Func that wraps it: Halide bounds such a call.
std::function<Expr(const std::vector<Expr> &)> reading(const Parameter &buffer, const Capture::State &capture) {
    return [buffer, is_bool = capture.type == Bool()](const std::vector<Expr> &at) {
        std::vector<Expr> indices;
        for (const Expr &e : at) indices.push_back(cast<int>(e));
        Expr element = Internal::Call::make(buffer, indices);
        return is_bool ? element != 0 : element;
    };
}

void require_defined(const Expr &e, const std::string &what) {
    if (!e.defined()) refuse(what + " returns an undefined expression");
}

// Constants that a float holds and whose shortest digits as a float are another double. Constants given as doubles are meant.
class LostDigits : public Internal::IRVisitor {
public:
    std::string digits, held;

private:
    using Internal::IRVisitor::visit;
    void visit(const Internal::FloatImm *op) override {
        const float single = static_cast<float>(op->value);
        if (!std::isfinite(single) || static_cast<double>(single) != op->value || given_doubles().count(op->value)) return;
        char text[32];
        const auto end = std::to_chars(text, text + sizeof text, single).ptr;
        double written = 0;
        std::from_chars(text, end, written);
        if (written == op->value) return;
        digits.assign(text, end);
        held.assign(text, std::to_chars(text, text + sizeof text, op->value).ptr);
    }
};

void check_name(const std::string &name, std::set<std::string> &seen) {
    const bool starts = !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) != 0);
    bool is_name = starts;
    for (const char c : name) is_name = is_name && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
    if (!is_name) refuse("the name of capture \"" + name + "\" is no C++ name");
    check_word(name, "a capture");
    for (const char *member : {"sdpa", "block_mask"})
        if (name == member) refuse("a capture cannot be called " + name + ": so is a member of the options");
    if (!seen.insert(name).second) refuse("two captures are called " + name);
}

UserAttention checked_attention(const UserAttention &attention) {
    std::set<std::string> names;
    for (const auto &c : attention.captures) {
        check_name(c->name, names);
        const bool known = c->type == Float(32) || c->type == Float(64) || c->type == Int(32) || c->type == Bool();
        if (!known) refuse("capture " + c->name + " must be of Float(32), Float(64), Int(32) or Bool()");
        if (c->dimensions < 0 || c->dimensions > 4) refuse("capture " + c->name + " must have 0 to 4 dimensions");
        if (c->dimensions == 0 && c->type == Bool()) refuse("capture " + c->name + ": a scalar must be a number");
    }
    UserAttention checked{attention.name, attention.captures, {}, {}, {}};
    if (attention.score)
        checked.score = [name = attention.name, score = attention.score](Expr x, const Index &at) {
            Expr y = score(x, at);
            require_defined(y, name + "::score");
            Reads reads;
            y.accept(&reads);
            if (!reads.anything)
                refuse(name + "::score is a constant: it reads neither the score, nor the index, nor a capture");
            if (y.type().is_bool()) refuse(name + "::score must be a number, is boolean: is it meant to be a mask?");
            ReadsByScore by_score("score_of_pair");
            score(Internal::Variable::make(x.type(), "score_of_pair"), at).accept(&by_score);
            if (!by_score.capture.empty())
                refuse(name + "::score reads capture " + by_score.capture + " at an element that depends on the score");
            return cast(x.type(), y);
        };
    if (attention.mask)
        checked.mask = [name = attention.name, mask = attention.mask](const Index &at) {
            Expr y = mask(at);
            require_defined(y, name + "::mask");
            std::ostringstream type;
            type << y.type();
            if (!y.type().is_bool()) refuse(name + "::mask must be boolean, is " + type.str());
            return y;
        };
    if (attention.probability)
        checked.probability = [name = attention.name, factor = attention.probability](const Index &at) {
            Expr y = factor(at);
            require_defined(y, name + "::probability");
            if (y.type().is_bool()) refuse(name + "::probability must be a number, is boolean: is it meant to be a mask?");
            return y;
        };
    return checked;
}

}  // namespace

const UserAttention *user_attention() {
    if (!maker()) return nullptr;
    static const UserAttention attention = checked_attention(maker()());
    return &attention;
}

void set_user_attention(std::function<UserAttention()> make) {
    maker() = std::move(make);
    user_arguments() = [] {
        using Argument = KernelArgument::Type;
        UserArguments all{bool(user_attention()->mask), {}};
        for (const char *name : origin_arguments) all.list.push_back({name, Argument::int32});
        for (const auto &c : user_attention()->captures) {
            const Argument number = c->type.is_float() ? Argument::f64 : Argument::int32;
            all.list.push_back({prefix + c->name, c->dimensions > 0 ? Argument::buffer : number, c->dimensions});
        }
        return all;
    };
}

void UserAttention::add_score(Score &to, const Global &global) const {
    if (score) {
        ScoreStep step;
        step.score = [global, of = score](Expr x, const Index &at) { return of(x, global(at)); };
        to.steps.push_back(step);
    }
    if (probability) to.probability = [global, of = probability](const Index &at) { return of(global(at)); };
}

void UserAttention::add_mask(Score &to, const Global &global) const {
    if (!mask) return;
    ScoreStep step;
    step.mask = [global, of = mask](const Index &at) { return of(global(at)); };
    step.may_mask = step.in_blocks = true;
    to.steps.push_back(step);
}

Type capture_type(const Capture::State &capture, Type of_scores) {
    if (capture.of_scores) return of_scores;
    return capture.type == Bool() ? UInt(8) : capture.type;
}

void UserInputs::add_to(Internal::GeneratorBase &generator, Type of_scores) {
    if (!user_attention()) return;
    of_scores_ = type_of_scores = of_scores;
    for (const char *name : origin_arguments) origin_[name] = generator.add_input<int32_t>(name);
    for (const auto &c : user_attention()->captures) {
        Input in{c.get()};
        const std::string name = prefix + c->name;
        if (c->dimensions > 0)
            in.buffer = generator.add_input<Buffer<>>(name, capture_type(*c, of_scores), c->dimensions);
        else if (c->type.is_float())
            in.number = generator.add_input<double>(name);
        else
            in.integer = generator.add_input<int32_t>(name);
        inputs_.push_back(in);
    }
}

void UserInputs::connect() {
    for (const Input &in : inputs_) {
        const Type type = capture_type(*in.capture, of_scores_);
        if (in.buffer) {
            in.capture->read = reading(in.buffer->operator ImageParam().parameter(), *in.capture);
        } else {
            const Expr scalar = in.number ? cast(type, *in.number) : Expr(*in.integer);
            in.capture->read = [scalar](const std::vector<Expr> &) { return scalar; };
        }
    }
}

UserAttention::Global UserInputs::global() const {
    return [this](const Index &at) {
        const auto origin = [this](const char *name) -> Expr { return *origin_.at(name); };
        Index global = at;
        global.b += origin("origin_entry"), global.h += origin("origin_head"), global.key_head += origin("origin_key_head");
        global.i += origin("origin_query"), global.j += origin("origin_key"), global.position += origin("origin_key");
        global.heads = origin("all_heads"), global.queries = origin("all_queries"), global.keys = origin("all_keys");
        return global;
    };
}

void UserInputs::constrain() {
    for (const Input &in : inputs_)
        for (int n = 0; in.buffer && n < in.capture->dimensions; n++) in.buffer->dim(n).set_min(0);
}

void refuse_lost_digits(const Expr &e, const std::string &who) {
    LostDigits lost;
    e.accept(&lost);
    if (!lost.digits.empty())
        refuse(who + " has the float " + lost.digits + "f, which kernels of f64 would take as " + lost.held + ": write " +
               lost.digits + ", a double");
}

void check_word(const std::string &name, const std::string &what) {
    static const std::set<std::string> words = {
        "alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
        "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char16_t",
        "char32_t",    "char8_t",  "class",      "co_await",  "co_return", "co_yield",     "compl",
        "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
        "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
        "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
        "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
        "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
        "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
        "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
        "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
        "true",        "try",      "typedef",    "typeid",    "typename",  "typeof",       "union",
        "unsigned",    "using",    "virtual",    "void",      "volatile",  "wchar_t",      "while",
        "xor",         "xor_eq"};
    // Macros of compilers and of the C library.
    static const std::set<std::string> macros = {"linux", "unix", "i386",     "errno", "assert", "NULL",
                                                 "EOF",   "NAN",  "INFINITY", "stdin", "stdout", "stderr"};
    if (words.count(name)) refuse(what + " cannot be called " + name + ": that is a keyword of C++");
    if (macros.count(name)) refuse(what + " cannot be called " + name + ": that is a macro");
    if (name == "attune" || name == "std" || name == "Options" || name == "Gradients")
        refuse(what + " cannot be called " + name + ": the header of the library has that name");
}

Index symbolic_index() {
    auto symbol = [](const char *name) { return Internal::Variable::make(Int(32), name); };
    const Expr i = symbol("pair_i");
    return {symbol("pair_b"),
            symbol("pair_h"),
            i,
            symbol("pair_j"),
            i + symbol("pair_offset"),
            symbol("pair_key_head"),
            symbol("pair_heads"),
            symbol("pair_queries"),
            symbol("pair_keys"),
            {}};
}

void connect_to_symbols(const UserAttention &user, Type of_scores) {
    type_of_scores = of_scores;
    for (const auto &c : user.captures) {
        const Type type = capture_type(*c, of_scores);
        const std::string name = prefix + c->name;
        if (c->dimensions > 0)
            c->read = reading(ImageParam(type, c->dimensions, name).parameter(), *c);
        else
            c->read = [scalar = Param<void>(type, name)](const std::vector<Expr> &) { return Expr(scalar); };
    }
}

std::vector<CapturedBuffer> UserInputs::buffers() const {
    std::vector<CapturedBuffer> list;
    for (const Input &in : inputs_) {
        CapturedBuffer buffer{prefix + in.capture->name, {}};
        for (int n = 0; in.buffer && n < in.capture->dimensions; n++) buffer.extents.push_back(in.buffer->dim(n).extent());
        list.push_back(buffer);
    }
    return list;
}

Expr random_bits(const Index &at, const Expr &seed_low, const Expr &seed_high) {
    const Type word = UInt(32);
    const auto words =
        dropout_words(at.j / 4, at.i, at.b * at.heads + at.h, Expr(uint32_t(0)), {cast(word, seed_low), cast(word, seed_high)});
    return mux(at.j % 4, {words[0], words[1], words[2], words[3]});
}

}  // namespace attune
