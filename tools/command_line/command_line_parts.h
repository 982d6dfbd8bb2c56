// SPDX-License-Identifier: MIT
// Parts of the command line common to commands of `attune run`.
#pragma once
#include "tools/commands/commands.h"
#include "tools/error.h"
#include <CLI/CLI.hpp>
#include <memory>

namespace attune::program {

// Adds a command with its arguments, which live as long as the command can run.
template<typename Arguments>
std::pair<CLI::App *, Arguments *> add_command(CLI::App &run, const char *name, const char *does, const std::string &footer,
                                               void (*function)(const Arguments &)) {
    CLI::App *command = run.add_subcommand(name, does);
    command->footer(footer);
    const auto arguments = std::make_shared<Arguments>();
    command->final_callback([command, arguments, function] {
        // CLI11 takes an empty word for an option that was not given.
        for (const CLI::Option *option : command->get_options())
            for (const std::string &word : option->results())
                if (word.empty()) throw InputError(option->get_name(), "is empty");
        function(*arguments);
    });
    return {command, arguments.get()};
}

template<typename Text> CLI::Option *file(CLI::App *command, const char *name, Text &to, const std::string &about) {
    return command->add_option(name, to, about)->type_name("FILE");
}

void add_call(CLI::App *, CallArguments &);
void add_picture(CLI::App *, PictureArguments &);
void add_dropout(CLI::App *, DropoutArguments &);

// Options of attention; `layer`: of tensors (B, S, E). add_scores: steps on the scores, and the call.
void add_tensors(CLI::App *, AttentionArguments &, bool layer);
void add_results(CLI::App *, AttentionArguments &, bool layer);
void add_masks(CLI::App *, AttentionArguments &);
void add_scores(CLI::App *, AttentionArguments &, const char *default_scale);
void add_invariant(CLI::App *, AttentionArguments &);
void add_products_of_sdpa(CLI::App *, Given &score, Given &score_weight);

// Tensors and lists of a packed batch, and its scores.
void add_packed_tensors(CLI::App *, VariableLengthArguments &);
void add_packed_scores(CLI::App *, VariableLengthArguments &);

// Heads, weights and biases of the multi-head layer.
void add_additive_layer(CLI::App *, AdditiveArguments &);
void add_layer(CLI::App *, MultiHeadArguments &);
void add_valid_lens_and_fill(CLI::App *, Given &valid_lens, Given &fill);

// The commands of serving, and the commands of gradients.
void add_serving(CLI::App &run);
void add_backward(CLI::App &run);

}  // namespace attune::program
