// SPDX-License-Identifier: MIT
#include "lanes.h"
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace ptx {
namespace {

std::string trimmed(const std::string &s) {
    const auto first = s.find_first_not_of(" \t\r\n"), last = s.find_last_not_of(" \t\r\n");
    return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

std::vector<std::string> split(const std::string &s, char by) {
    std::vector<std::string> parts;
    std::string part;
    std::istringstream in(s);
    while (std::getline(in, part, by)) parts.push_back(trimmed(part));
    return parts;
}

// Operands are separated by commas (results of two, by |) outside braces.
std::vector<std::string> split_operands(const std::string &s) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : s) {
        depth += (c == '{') - (c == '}');
        if (depth == 0 && (c == ',' || c == '|'))
            parts.emplace_back();
        else
            parts.back() += c;
    }
    for (std::string &p : parts) p = trimmed(p);
    if (parts.back().empty()) parts.pop_back();
    return parts;
}

Kind kind_of(const Instruction &in) {
    const std::string &op = in.operation;
    const std::string name = in.text.substr(in.text.find(op));  // without a predicate
    const auto begins = [&](const std::string &start) { return name.rfind(start + " ", 0) == 0; };
    if (in.computes) return Kind::computed;
    if (op == "bra") return Kind::branch;
    if (op == "ret" || op == "exit") return Kind::finish;
    if (op == "bar" || op == "barrier") return Kind::barrier;
    if (op == "ld") return in.has("param") ? Kind::parameter : Kind::load;
    if (op == "st") return Kind::store;
    if (begins("shfl.sync.bfly.b32") && in.operands.size() == 5) return Kind::exchange;
    if (begins("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")) return Kind::multiply_f16;
    if (begins("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")) return Kind::multiply_bf16;
    if (begins("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")) return Kind::multiply_tf32;
    if (begins("ldmatrix.sync.aligned.m8n8.x4.shared.b16")) return Kind::load_matrices;
    if (begins("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16")) return Kind::load_transposed;
    if (begins("cp.async.cg.shared.global")) return Kind::copy;
    if (name == "cp.async.commit_group") return Kind::close_copies;
    if (begins("cp.async.wait_group")) return Kind::wait_for_copies;
    return Kind::unknown;
}

class KernelReader {
public:
    explicit KernelReader(Kernel &kernel) : kernel_(kernel) {}

    void read(const std::string &body) {
        std::string statement;
        for (const char c : body) {
            if (c == ';' || (c == ':' && is_label(statement))) {
                if (c == ':')
                    labels_[trimmed(statement)] = static_cast<int>(kernel_.code.size());
                else
                    read_statement(trimmed(statement));
                statement.clear();
            } else if ((c == '{' || c == '}') && trimmed(statement).empty()) {
                // a scope with registers of its own, whose names are unique anyway
            } else {
                statement += c;
            }
        }
        for (std::size_t n = 0; n < kernel_.code.size(); n++)
            if (!targets_[n].empty()) kernel_.code[n].target = labels_.at(targets_[n]);
        kernel_.places = static_cast<int>(places_.size());
    }

private:
    static bool is_label(const std::string &s) {
        const std::string t = trimmed(s);
        return !t.empty() && t[0] == '$';
    }

    Place place(const std::string &name) { return places_.emplace(name, static_cast<Place>(places_.size())).first->second; }
    Place constant(std::uint64_t value) {
        const std::size_t before = places_.size();
        const Place p = place("constant " + std::to_string(value));
        if (places_.size() > before) kernel_.constants.emplace_back(p, value);
        return p;
    }

    Place value(const std::string &s) {
        if (s == "true" || s == "false") return constant(s == "true");
        if (s[0] == '%' && s.find('.') != std::string::npos) {
            const std::size_t before = places_.size();
            const Place p = place(s);
            if (places_.size() > before) kernel_.specials.emplace_back(p, s);
            return p;
        }
        if (s.size() > 2 && s[0] == '0' && (s[1] == 'f' || s[1] == 'd'))  // the bits of a float or a double
            return constant(std::strtoull(s.c_str() + 2, nullptr, 16));
        if (s[0] == '-') return constant(static_cast<std::uint64_t>(std::strtoll(s.c_str(), nullptr, 0)));
        if (s[0] >= '0' && s[0] <= '9') return constant(std::strtoull(s.c_str(), nullptr, 0));
        return place(s);
    }

    Operand operand(std::string s) {
        Operand o;
        if (s.front() == '{') {
            for (const std::string &element : split(s.substr(1, s.size() - 2), ',')) o.places.push_back(value(element));
            return o;
        }
        if (s.front() != '[') return {{value(s)}, 0, ""};
        s = s.substr(1, s.size() - 2);
        const auto plus = s.find('+');
        if (plus != std::string::npos) o.offset = std::strtoll(s.c_str() + plus + 1, nullptr, 0);
        const std::string base = trimmed(s.substr(0, plus));
        if (base[0] == '%')
            o.places.push_back(value(base));
        else
            o.symbol = base;
        return o;
    }

    void read_statement(std::string s) {
        if (s.empty()) return;
        if (s[0] == '.') {
            if (s.find(".local") != std::string::npos) throw std::runtime_error("memory of a thread's own: " + s);
            return;  // declarations of registers, alignment and others
        }
        Instruction in;
        in.text = s;
        if (s[0] == '@') {
            const auto space = s.find_first_of(" \t");
            std::string name = s.substr(1, space - 1);
            in.negated = name[0] == '!';
            in.predicate = place(in.negated ? name.substr(1) : name);
            s = trimmed(s.substr(space));
        }
        const auto space = s.find_first_of(" \t");
        const std::string rest = space == std::string::npos ? "" : trimmed(s.substr(space));
        in.parts = split(s.substr(0, space), '.');
        in.operation = in.parts.front(), in.type = in.parts.back();
        targets_.emplace_back();
        if (in.operation == "bra")
            targets_.back() = rest;
        else
            for (const std::string &o : split_operands(rest)) in.operands.push_back(operand(o));
        in.computes = lanewise(in);
        in.kind = kind_of(in);
        in.shared = in.has("shared");
        if (in.kind == Kind::load || in.kind == Kind::store) in.bytes = std::stoul(in.type.substr(1)) / 8;
        kernel_.code.push_back(std::move(in));
    }

    Kernel &kernel_;
    std::map<std::string, Place> places_;
    std::map<std::string, int> labels_;
    std::vector<std::string> targets_;
};

int bytes_of_parameter(const std::vector<std::string> &words) {
    static const std::map<std::string, int> sizes = {{".u8", 1},  {".b8", 1},  {".s8", 1},  {".u16", 2}, {".b16", 2},
                                                     {".s16", 2}, {".u32", 4}, {".b32", 4}, {".s32", 4}, {".f32", 4},
                                                     {".u64", 8}, {".b64", 8}, {".s64", 8}, {".f64", 8}};
    for (const std::string &w : words)
        if (const auto found = sizes.find(w); found != sizes.end()) return found->second;
    throw std::runtime_error("a parameter without a type that is known");
}

std::string without_comments(const std::string &text) {
    std::string result;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) result += line.substr(0, line.find("//")) + "\n";
    return result;
}

}  // namespace

bool Instruction::has(const std::string &part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }

std::unique_ptr<Module> parse(const std::string &commented) {
    const std::string text = without_comments(commented);
    auto module = std::make_unique<Module>();
    if (text.find(".extern .func") != std::string::npos) throw std::runtime_error("an extern function");
    for (std::size_t at = 0; (at = text.find(".entry", at)) != std::string::npos;) {
        const auto open = text.find('(', at), close = text.find(')', open);
        const std::string name = trimmed(text.substr(at + 6, open - at - 6));
        Kernel &kernel = module->kernels[name];
        kernel.name = name;
        for (const std::string &declared : split(text.substr(open + 1, close - open - 1), ',')) {
            const std::vector<std::string> words = split(declared, ' ');
            if (!declared.empty()) kernel.parameters.push_back({words.back(), bytes_of_parameter(words)});
        }
        const auto begin = text.find('{', close);
        auto end = begin + 1;
        for (int depth = 1; depth > 0; end++) depth += (text[end] == '{') - (text[end] == '}');
        KernelReader(kernel).read(text.substr(begin + 1, end - begin - 2));
        at = end;
    }
    if (module->kernels.empty()) throw std::runtime_error("no kernel");
    return module;
}

}  // namespace ptx
