# SPDX-License-Identifier: MIT
"""Small models of transformers with random weights: attn_implementation="attune" against "eager".

Logits and gradients of a training step by the error rule, against the same model in f64; 32 generated tokens are the same.
"""
import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import attune.transformers  # noqa: E402
from judge import judge  # noqa: E402

attune.transformers.register()
SMALL = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=None)


def causal(name, config_name=None, **config):
    def make():
        made = getattr(transformers, config_name or name + "Config")(**{**SMALL, **TOKENS, **config})
        return getattr(transformers, name + "ForCausalLM")(made)
    return make


def of(model, config, **options):
    return lambda: getattr(transformers, model)(getattr(transformers, config)(**options))


MODELS = {
    "llama": causal("Llama", num_key_value_heads=2),
    "qwen3": causal("Qwen3", num_key_value_heads=2, head_dim=16),
    "gemma3": causal("Gemma3", "Gemma3TextConfig", num_key_value_heads=2, head_dim=16, sliding_window=8, num_hidden_layers=3,
                     layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "gemma2_softcap": causal("Gemma2", num_key_value_heads=2, head_dim=16, sliding_window=8, attn_logit_softcapping=5.0),
    "mistral": causal("Mistral", num_key_value_heads=2, sliding_window=8),
    "gpt_oss": causal("GptOss", num_key_value_heads=2, head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                      sliding_window=8),
    "deepseek_v3": causal("DeepseekV3", num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=16, qk_nope_head_dim=16,
                          qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
                          n_shared_experts=1, moe_intermediate_size=32, first_k_dense_replace=1),
    "gpt2": of("GPT2LMHeadModel", "GPT2Config", vocab_size=97, n_embd=64, n_layer=2, n_head=4, n_positions=64, attn_pdrop=0,
               resid_pdrop=0, embd_pdrop=0, **TOKENS),
    "bert": of("BertForMaskedLM", "BertConfig", **SMALL, hidden_dropout_prob=0, attention_probs_dropout_prob=0),
    "modernbert": of("ModernBertForMaskedLM", "ModernBertConfig", **SMALL, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                     cls_token_id=1, sep_token_id=2, local_attention=8),
    "t5": of("T5ForConditionalGeneration", "T5Config", vocab_size=97, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4,
             dropout_rate=0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=None),
    "whisper": of("WhisperForConditionalGeneration", "WhisperConfig", vocab_size=97, d_model=64, encoder_layers=2,
                  decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
                  decoder_ffn_dim=96, num_mel_bins=16, max_source_positions=20, max_target_positions=64, dropout=0,
                  pad_token_id=0, bos_token_id=1, eos_token_id=None, decoder_start_token_id=1, suppress_tokens=None,
                  begin_suppress_tokens=None),
    "vit": of("ViTForImageClassification", "ViTConfig", hidden_size=64, intermediate_size=96, num_hidden_layers=2,
              num_attention_heads=4, image_size=32, patch_size=8, num_labels=7, hidden_dropout_prob=0,
              attention_probs_dropout_prob=0),
}
GENERATE = [name for name in MODELS if name not in ("bert", "modernbert", "vit")]


def inputs_of(name):
    tokens = torch.randint(3, 97, (2, 19))
    if name == "vit":
        return dict(pixel_values=torch.randn(2, 3, 32, 32))
    if name == "whisper":
        return dict(input_features=torch.randn(2, 16, 40), decoder_input_ids=tokens)
    mask = torch.ones_like(tokens)
    if name == "t5":
        mask[1, -5:] = 0
        return dict(input_ids=tokens, attention_mask=mask, decoder_input_ids=torch.randint(3, 97, (2, 9)))
    if name in ("bert", "modernbert"):
        # Padded on the right, as for training; less than ModernBERT's window of 4 to each side, as gradients of "eager" are NaN
        # where a query has no key.
        mask[1, -3:] = 0
    return dict(input_ids=tokens, attention_mask=mask)


def made(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    with torch.no_grad():
        for parameter in model.parameters():  # larger than models begin with: attention that looks somewhere
            if parameter.dim() > 1:
                parameter.mul_(3)
    return model.eval(), inputs_of(name)


def step(model, how, inputs, dtype=torch.float32):
    model = copy.deepcopy(model).to(dtype)
    model.set_attn_implementation(how)
    assert model.config._attn_implementation == how
    if hasattr(model.config, "_experts_implementation"):
        model.set_experts_implementation("eager")  # the other ones have no f64
    inputs = {name: t.to(dtype) if t.is_floating_point() else t for name, t in inputs.items()}
    logits = model(**inputs).logits
    where = inputs["attention_mask"].bool() if logits.shape[:2] == inputs.get("attention_mask", logits[0]).shape else ...
    logits = logits[where]
    torch.nn.functional.cross_entropy(logits.flatten(0, -2), torch.arange(logits.flatten(0, -2).shape[0]) % 7).backward()
    return logits.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients(name):
    model, inputs = made(name)
    mine, my_grads = step(model, "attune", inputs)
    plain, plain_grads = step(model, "eager", inputs)
    exact, exact_grads = step(model, "eager", inputs, torch.float64)
    judge("logits", mine, plain, exact)
    assert my_grads.keys() == plain_grads.keys() and len(my_grads) > 5
    for parameter, grad in my_grads.items():
        # Biases of keys have gradients that cancel to nothing: the floor is of the size of the layer's other gradients.
        size = max(g.abs().max() for n, g in exact_grads.items() if n.split(".")[:-2] == parameter.split(".")[:-2])
        judge(parameter, grad, plain_grads[parameter], exact_grads[parameter], sizes=size)


@pytest.mark.parametrize("name", GENERATE)
def test_generation(name):
    model, inputs = made(name)
    if name == "whisper":
        inputs = dict(input_features=inputs["input_features"])
    elif name != "t5":  # prompts of different lengths, padded on the left
        inputs["attention_mask"][1, :5] = 0
        inputs["input_ids"][1, :5] = 0
    inputs.pop("decoder_input_ids", None)
    tokens = []
    for how in ("eager", "attune"):
        model.set_attn_implementation(how)
        tokens.append(model.generate(**inputs, max_new_tokens=32, min_new_tokens=32, do_sample=False))
    assert tokens[0].shape[1] >= 32 and torch.equal(*tokens)


def test_the_library_runs(monkeypatch):
    """Each layer's attention is the library's."""
    model, inputs = made("llama")
    calls = []
    monkeypatch.setattr(attune.transformers, "general", lambda *a, **k: calls.append(a) or general(*a, **k))
    general = __import__("attune.torch._attention", fromlist=["general"]).general
    step(model, "attune", inputs)
    assert len(calls) == 2
    with pytest.raises(ValueError, match="output_attentions"):
        attune.transformers.attention_forward(model, None, None, None, None, output_attentions=True)
