// SPDX-License-Identifier: MIT
// Texts whose hash changes with the code alone: an edited comment must not discard measurements, edited code must.
#include "tests/support/catch.h"
#include "tools/tune/hash.h"
#include <string>

namespace attune::tune {

TEST_CASE("hash: comments and blank lines of C++ do not count", "[tune]") {
    const std::string code = "#include <cmath>\nint f(int x) {\n    return x / 2;\n}\n";
    CHECK(without_comments(code) == code);
    CHECK(without_comments("// SPDX-License-Identifier: MIT\n// What f is.\n#include <cmath>\n\nint f(int x) {  // half\n"
                           "    // Rounds \"to\" 0, doesn't it?\n    return x / 2;\t\n \n}\n// the end") == code);
    CHECK(without_comments("/* one\n * two */\n#include <cmath>\nint f(int x) { /* half */\n    return x / 2;\n}") == code);
    CHECK(without_comments("") == "");
    CHECK(without_comments("// nothing else") == "");
    CHECK(without_comments("a /* open") == "a\n");
}

TEST_CASE("hash: what looks like a comment within a literal is code", "[tune]") {
    for (const std::string line :
         {R"(auto url = "https://a.b/*c*/";)", R"(auto s = "\\\"// no comment"; f('"', '/', '\'', "/*");)",
          "auto r = R\"x(\" // \n\n )\" /* )x\";", R"(auto n = 1'000'000 / 0xff'ff; g("//");)", "a = b / c; d = *e / *f;"}) {
        INFO(line);
        CHECK(without_comments(line + "\n") == line + "\n");
        CHECK(without_comments(line + "  // a comment\n") == line + "\n");
    }
    // A quote without its pair ends with the line.
    CHECK(without_comments("#error it doesn't // work\nint x;  // x\n") == "#error it doesn't // work\nint x;\n");
}

TEST_CASE("hash: code counts, each character of it", "[tune]") {
    const std::string code = without_comments("int x = 1;  // x\n");
    for (const char *other : {"int x = 2;  // x\n", "int y = 1;  // x\n", "int x = 1; int y;  // x\n", "int x =  1;  // x\n"})
        CHECK(hash_of(without_comments(other)) != hash_of(code));
    CHECK(hash_of(without_comments("int x = 1;  // another\n")) == hash_of(code));
}

}  // namespace attune::tune
