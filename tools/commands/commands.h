// SPDX-License-Identifier: MIT
// The commands of the program. Each throws InputError or MachineError; main() reports them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace attune::program {

using Given = std::optional<std::string>;  // a word of the command line, unchanged

// Arguments of `attune run`, as given. Files are .npy unless stated otherwise.
struct CallArguments {
    Given dtype, threads, variant;
};

struct PictureArguments {
    Given file;                                         // output, SVG
    std::vector<std::string> labels_query, labels_key;  // text files: one, or one per batch entry
};

struct DropoutArguments {
    Given probability, seed, offset, first_query, first_key, first_head, heads;
};

// Arguments common to the commands of attention, as the ops of the library share SdpaOptions.
struct AttentionArguments {
    std::string query, key, value;
    Given out, lse, weights, weights_mode;  // outputs, and the content of weights
    bool average_weights = false;
    PictureArguments picture;
    Given scale, softcap, bias, alibi, mask, causal, offset, window, valid_lens, cache_lens, sinks;
    DropoutArguments dropout;
    bool invariant = false;
    CallArguments call;
};

struct SdpaArguments {
    AttentionArguments attention;
    Given score, score_weight;
};
struct SdpaBackwardArguments {
    AttentionArguments attention;  // without the outputs
    Given score, score_weight;
    std::string grad_out;
    Given grad_lse, in_out, in_lse;
    Given grad_query, grad_key, grad_value, grad_bias, grad_slopes, grad_sinks, grad_score_weight;  // outputs
};
struct AdditiveArguments {
    AttentionArguments attention;
    Given w_query, w_key, b_query, b_key, w_score, b_score;
};
struct AdditiveBackwardArguments {
    AdditiveArguments additive;  // without the outputs
    std::string grad_out;
    Given grad_lse;
    Given grad_query, grad_key, grad_value, grad_w_query, grad_w_key, grad_b_query, grad_b_key, grad_w_score;  // outputs
    Given grad_bias, grad_slopes, grad_sinks;
};
struct MultiHeadArguments {
    AttentionArguments attention;
    std::string heads, w_query, w_key, w_value, w_out;
    Given kv_heads, b_query, b_key, b_value, b_out;
};
struct MultiHeadBackwardArguments {
    MultiHeadArguments layer;  // without the outputs
    std::string grad_out;
    Given grad_query, grad_key, grad_value;  // outputs
    Given grad_w_query, grad_w_key, grad_w_value, grad_w_out, grad_b_query, grad_b_key, grad_b_value, grad_b_out;
    Given grad_bias, grad_slopes, grad_sinks;
};
struct VariableLengthArguments {
    AttentionArguments attention;  // without bias, mask, lengths, weights and picture
    std::string cu_seqlens_q, cu_seqlens_k;
    Given score;
};
struct VariableLengthBackwardArguments {
    VariableLengthArguments packed;  // without the outputs
    std::string grad_out;
    Given grad_lse, in_out, in_lse;
    Given grad_query, grad_key, grad_value, grad_slopes, grad_sinks;  // outputs
};
struct PagedArguments {
    AttentionArguments attention;  // query, scale, softcap, alibi, window, sinks, out and lse of it
    std::string key_pages, value_pages, cu_seqlens_q, block_table, lens;
    Given key_scale, key_minimum, value_scale, value_minimum;
    Given indptr, distance_bias, tree_mask, positions, prefix_table, prefix_lens, prefix_of;
    Given weight_sums;
    bool not_causal = false, group_sums = false;
};
struct KvAppendArguments {
    std::string key, value, key_cache, value_cache, cache_lens, key_out, value_out;
    Given new_lens, when_full;
    CallArguments call;
};
// Steps of rows before they are stored or attended to.
struct RowStepArguments {
    Given norm_weight, norm_eps, rope_base, rope_scaling, cos, sin, rope_dim, rope_offset, positions;
    bool interleaved = false, hadamard = false;
};
struct RopeArguments {
    std::string x, out;
    RowStepArguments steps;
    CallArguments call;
};
struct AppendArguments {
    std::string key, value, slots;
    Given key_pages, key_scale, key_minimum, value_pages, value_scale, value_minimum;
    Given pool, store;  // in place of pages
    RowStepArguments steps;
    bool rotate_values = false;
    Given key_out, key_scale_out, key_minimum_out, value_out, value_scale_out, value_minimum_out;  // outputs
    CallArguments call;
};
struct MergeArguments {
    Given out_a, lse_a, out_b, lse_b;
    std::vector<std::string> parts;  // out and lse of each
    std::string out;
    Given lse;
    CallArguments call;
};
struct MaskedSoftmaxArguments {
    std::string scores, out;
    Given valid_lens, fill;
    PictureArguments picture;
    CallArguments call;
};
struct MaskedSoftmaxBackwardArguments {
    Given scores, in_out, valid_lens, fill;
    std::string grad_out, grad_scores;
    CallArguments call;
};
struct LinearArguments {
    std::string x, weight, out;
    Given bias;
    bool packed = false;
    CallArguments call;
};
struct LinearBackwardArguments {
    Given x, weight;
    std::string grad_out;
    Given grad_x, grad_weight, grad_bias;  // outputs
    CallArguments call;
};
struct BatchDotArguments {
    std::string a, x, out;
    CallArguments call;
};
struct DropoutMaskArguments {
    std::string shape, out;
    DropoutArguments dropout;
    CallArguments call;
};

void run_sdpa(const SdpaArguments &);
void run_sdpa_backward(const SdpaBackwardArguments &);
void run_additive(const AdditiveArguments &);
void run_additive_backward(const AdditiveBackwardArguments &);
void run_multi_head(const MultiHeadArguments &);
void run_multi_head_backward(const MultiHeadBackwardArguments &);
void run_variable_length(const VariableLengthArguments &);
void run_variable_length_backward(const VariableLengthBackwardArguments &);
void run_paged(const PagedArguments &);
void run_rope(const RopeArguments &);
void run_append(const AppendArguments &);
void run_kv_append(const KvAppendArguments &);
void run_merge(const MergeArguments &);
void run_masked_softmax(const MaskedSoftmaxArguments &);
void run_masked_softmax_backward(const MaskedSoftmaxBackwardArguments &);
void run_linear(const LinearArguments &);
void run_linear_backward(const LinearBackwardArguments &);
void run_batch_dot(const BatchDotArguments &);
void run_dropout_mask(const DropoutMaskArguments &);

std::string variants_text();
std::string variants_json();
std::string doctor_text();
std::string doctor_measures();  // with --measure, behind it
std::string doctor_line(const std::string &name, const std::string &text);

}  // namespace attune::program
