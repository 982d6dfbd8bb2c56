// SPDX-License-Identifier: MIT
// ATTUNE_FORCE_VARIANT and ATTUNE_VERBOSE, read once by each Context.
#include "runtime/src/dispatch/variant_table.h"
#include "tests/support/environment.h"
#include "tests/support/refusals.h"
#include "tests/support/variant_grid.h"
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace attune_test;

namespace {
// Text that f writes to the process's stderr.
template<typename F> std::string stderr_of(const F &f) {
    std::FILE *file = std::tmpfile();
    REQUIRE(file);
    std::fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    f();
    std::fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    std::rewind(file);
    std::string text;
    for (int c; (c = std::fgetc(file)) != EOF;) text += char(c);
    std::fclose(file);
    return text;
}
std::vector<std::string> lines(const std::string &text) {
    std::vector<std::string> all;
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)
        all.push_back(text.substr(at, end - at));
    return all;
}

SdpaCase fitting(const attune::VariantInfo &v) {
    const auto [head_dim, value_dim] = head_size(v);
    return {.queries = 4, .keys = 70, .head_dim = head_dim, .value_dim = value_dim};
}
}  // namespace

TEST_CASE("environment: the variant of ATTUNE_FORCE_VARIANT is the one that runs", "[runtime]") {
    for_each_variant([](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        Environment force("ATTUNE_FORCE_VARIANT", std::string(v.name));
        attune::Context context({.threads = 2});
        check_case<T>(context, fitting(v));
        CHECK(context.last_variant() == v.name);
        const SdpaCase c = fitting(v);
        attune::Plan plan;
        CHECK(attune::plan_sdpa(context, {v.dtype, 2, 2, 2, c.queries, c.keys, c.head_dim, c.value_dim}, plan).ok());
        CHECK(plan.variant == v.name);
    });
}

TEST_CASE("environment: a variant that a call asks for comes before ATTUNE_FORCE_VARIANT", "[runtime]") {
    const std::string root = "sdpa_f32_dany_generic_root";
    Environment force("ATTUNE_FORCE_VARIANT", "sdpa_f64_dany_generic_root");  // not for the f32 call below
    attune::Context context;
    SdpaArrays<float> a{SdpaCase{}};
    CHECK(a.run(context, root).ok());
    CHECK(context.last_variant() == root);
}

TEST_CASE("environment: an impossible ATTUNE_FORCE_VARIANT is an error of every call", "[runtime]") {
    const auto refused = [](const std::string &name, attune::StatusCode code, const std::vector<std::string> &parts) {
        Environment force("ATTUNE_FORCE_VARIANT", name);
        attune::Context context;
        for (int turn = 0; turn < 2; turn++) {
            SpoiledCall call;  // f32, head sizes 8 and 6
            const auto status =
                attune::scaled_dot_product_attention(context, call.query, call.key, call.value, call.out, call.options);
            CHECK(status.code() == code);
            CHECK(message_defect(status.message(), "ATTUNE_FORCE_VARIANT", parts) == "");
            CHECK(call.arrays.out.untouched());
            CHECK(context.last_variant().empty());
        }
        attune::Plan plan;  // of the output's kernel, without one for the weights
        const bool weights = name.find("_weights") != name.npos;
        CHECK(attune::plan_sdpa(context, {.head_dim = 8, .value_dim = 6}, plan).code() ==
              (weights ? attune::StatusCode::ok : code));
    };
    refused("sdpa_there_is_no_such_variant", invalid, {"sdpa_there_is_no_such_variant"});
    for (const attune::VariantInfo &v : attune::variants()) {
        const std::string name(v.name);
        if (v.op != "sdpa") continue;
        if (!v.runs_here)
            refused(name, unsupported, {name, v.why_not});
        else if (v.dtype == attune::DType::f64 || v.head_dim != 0)
            refused(name, invalid, {name});
    }
}

TEST_CASE("environment: a variable set after the Context does nothing", "[runtime]") {
    attune::Context before;
    Environment late("ATTUNE_FORCE_VARIANT", "sdpa_there_is_no_such_variant");
    check_case<float>(before, {});
}

TEST_CASE("environment: a forced name that no op has is not ignored", "[runtime]") {
    Environment force("ATTUNE_FORCE_VARIANT", "spda_f32_dany_generic_root");
    attune::Context context;
    CHECK(context.status().code() == invalid);
    CHECK(message_defect(context.status().message(), "ATTUNE_FORCE_VARIANT", {"spda_f32_dany_generic_root"}) == "");
}

TEST_CASE("environment: ATTUNE_VERBOSE writes one line for each call", "[runtime]") {
    Environment verbose("ATTUNE_VERBOSE", "1");
    attune::Context context;
    SdpaArrays<float> a{SdpaCase{}}, none{SdpaCase{.keys = 0}};
    std::string variant;
    bool ok = true;
    const auto written = lines(stderr_of([&] {
        ok = a.run(context).ok();
        variant = context.last_variant();
        ok = a.run(context, "sdpa_f32_dany_generic_root").ok() && ok;
        ok = none.run(context).ok() && ok;
    }));
    CHECK(ok);
    REQUIRE(written.size() == 3);
    for (const std::string &line : written) CHECK(line.rfind("attune: sdpa ", 0) == 0);
    const std::vector<attune::VariantInfo> all = attune::variants();
    const auto ran = std::find_if(all.begin(), all.end(), [&](const auto &v) { return v.name == variant; });
    REQUIRE(ran != all.end());
    CHECK(written[0].find(variant + " [" + std::string(ran->parameters) + "]") != std::string::npos);
    CHECK(written[1].find("sdpa_f32_dany_generic_root") != std::string::npos);
    CHECK(written[1].find("forced") != std::string::npos);
    CHECK(written[2].find("no keys") != std::string::npos);
    for (const std::string &line : written) CHECK(line.find(" us") != std::string::npos);
}

TEST_CASE("environment: a CPU without kernels of its own target is told so", "[runtime]") {
    using Targets = std::vector<std::string_view>;
    const auto missing = [](const Targets &usable, const Targets &tuned) { return attune::missing_variants(usable, tuned); };
    const Targets zen5 = {"zen5", "zen4", "avx512", "avx2", "generic"}, old = {"avx2", "generic"};
    CHECK(missing(zen5, {"zen5"}) == "");
    CHECK(missing(old, {"avx2"}) == "");
    CHECK(missing(zen5, {"avx2", "generic"}).find("no kernels of this CPU's target zen5 are linked in, those of avx2 run") ==
          0);
    CHECK(missing(zen5, {"sapphirerapids", "zen4", "avx2"}).find("those of zen4 run in their place") != std::string::npos);
    CHECK(missing(old, {"zen5"}).find("no tuned kernels that this CPU runs are linked in, every call takes the slow root") ==
          0);
    CHECK(missing(old, {}).find("ATTUNE_TARGETS=avx2 or the preset portable") != std::string::npos);
    // A context reports the variants that are linked in here, once, before its calls.
    Environment verbose("ATTUNE_VERBOSE", "1");
    const std::string expected = attune::missing_variants();
    CHECK(stderr_of([] { attune::Context context; }) == (expected.empty() ? "" : "attune: " + expected + "\n"));
}

TEST_CASE("environment: nothing is written without ATTUNE_VERBOSE, also where a call fails", "[runtime]") {
    for (const char *value : {"", "0"}) {
        Environment quiet("ATTUNE_VERBOSE", value);
        attune::Context context;
        bool ok = false, bad = false;
        const std::string written = stderr_of([&] {
            SdpaArrays<float> a{SdpaCase{}};
            ok = a.run(context).ok();
            bad = !a.run(context, "sdpa_there_is_no_such_variant").ok();
            attune::Context wrong({.threads = -1});
            bad = !a.run(wrong).ok() && bad;
        });
        CHECK(ok);
        CHECK(bad);
        CHECK(written == "");
    }
}
