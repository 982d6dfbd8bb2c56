# SPDX-License-Identifier: MIT
"""examples/language_model on SmolLM2-135M-Instruct, against transformers on the same GGUF file, in f32. scripts/test_model runs
it; the model is a download of 93 MB, and transformers needs PyTorch."""
import os
import pathlib
import sys

import numpy as np
import pytest
from conftest import note
from program import answers, logits, perplexity

if "ATTUNE_MODEL_FOLDER" not in os.environ:
    pytest.skip("SmolLM2 against transformers: run scripts/test_model, which downloads them", allow_module_level=True)
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from chat_dialogue import SYSTEM, message  # noqa: E402

FOLDER = pathlib.Path(os.environ["ATTUNE_MODEL_FOLDER"])
GGUF = pathlib.Path(os.environ["ATTUNE_MODEL_GGUF"])
F32, BF16 = FOLDER / "f32.safetensors", FOLDER / "bf16.safetensors"
CLOSE = 1e-4  # logits that a rounding may order either way


def load(dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(GGUF.parent, gguf_file=GGUF.name, dtype=dtype).eval()


@pytest.fixture(scope="module")
def model():
    return load(torch.float32)


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


@pytest.fixture(scope="module")
def docs():
    """The text of the project's pages."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))


@pytest.fixture(scope="module")
def prompts(tokenizer, docs):
    """Eight prompts of 20 to 1500 tokens, in the form of the model's dialogues."""
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    out, text = [], encode(docs)
    questions = ("Why is the sky blue?", "Summarise this text: ", "Which words of this text are about memory? ", "Go on: ")
    for n, count in enumerate((20, 45, 90, 180, 400, 700, 1100, 1500)):
        begin = encode(f"<|im_start|>user\n{questions[n % 4]}")
        end = encode("<|im_end|>\n<|im_start|>assistant\n")
        out.append(begin + text[4000 * n : 4000 * n + count - len(begin) - len(end)] + end)
        assert len(out[-1]) == count
    return out


def reference_answer(model, prompt, count, window=0):
    """Greedy tokens, and the logits of the two likeliest of each step."""
    tokens, best, cache = list(prompt), [], None
    with torch.no_grad():
        new = tokens
        while len(best) < count:
            held = len(tokens) - len(new)
            i, j = torch.arange(held, len(tokens))[:, None], torch.arange(len(tokens))[None]
            seen = (j <= i) & ((j > i - window) if window else True)
            mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
            out = model(torch.tensor([new]), attention_mask=mask, past_key_values=cache, use_cache=True, logits_to_keep=1,
                        position_ids=i.T)  # fmt: skip
            cache = out.past_key_values
            top = torch.topk(out.logits[0, -1], 2)
            best.append([(int(token), float(x)) for token, x in zip(top.indices, top.values)])
            new = [best[-1][0][0]]
            tokens += new
    return best


def compare(name, reference, tokens):
    """Token for token; where the reference's two likeliest tokens are closer than CLOSE, a note shows them, and the rest is
    not compared."""
    for n, ((first, second), token) in enumerate(zip(reference, tokens)):
        if token != first[0]:
            text = f"{name}: token {n} is {token}; the reference has {first[0]} ({first[1]:.6f}), {second[0]} ({second[1]:.6f})"
            assert first[1] - second[1] < CLOSE and token == second[0], text
            note(text)
            return
    assert len(tokens) == len(reference)
    margin = min(first[1] - second[1] for first, second in reference)
    note(f"{name}: {len(tokens)} tokens are the reference's; its two likeliest differ by {margin:.5f} or more")


def test_tokenizer(tokenizer, docs):
    # transformers ignores that the file asks for single digits (`pre`), which change where spaces before a digit go: without
    # numbers its tokens are ours, and with that rule added, all are.
    from tokenizers import pre_tokenizers

    theirs = transformers.AutoTokenizer.from_pretrained(GGUF.parent, gguf_file=GGUF.name)
    texts = [docs, *(path.read_text(errors="replace") for path in sorted((ROOT / "examples").rglob("*.cpp")))]
    texts += ["<|im_start|>user\nHow are you?<|im_end|>\n", "  two  spaces\t\n\n tabs ", "日本語のテキスト"]
    texts += ["naïve café 😀👩‍👩‍👧 don't I'll"]
    texts += ["1234 12.5e-3  7", "½ ² ٣٤ Ⅷ ①", "\x00\x7f\ufeff"]
    same = lambda text: theirs.encode(text, add_special_tokens=False) == tokenizer.encode(text, add_special_tokens=False).ids
    assert all(same("".join(c for c in text if not c.isnumeric())) for text in texts)
    theirs.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    assert all(same(text) for text in texts)
    assert all(tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text for text in texts)
    chat = [{"role": "user", "content": "Hello"}]
    template = theirs.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert template == message("system", SYSTEM) + message("user", "Hello") + "<|im_start|>assistant\n"


def test_greedy_answers(model, prompts):
    together = answers(F32, prompts)
    for n, (prompt, other) in enumerate(zip(prompts, together)):
        (alone,) = answers(F32, [prompt])
        assert alone.tokens == other.tokens, f"prompt {n}: alone and with seven others"
        compare(f"prompt of {len(prompt)} tokens", reference_answer(model, prompt, 128), alone.tokens)


def test_greedy_answer_with_a_window(model, prompts):
    (answer,) = answers(F32, [prompts[5]], "--window", 100)
    compare("window of 100", reference_answer(model, prompts[5], 128, window=100), answer.tokens)


@pytest.mark.parametrize("weights", [F32, BF16], ids=["f32", "bf16"])
def test_invariant_bits(prompts, weights):
    together = answers(weights, prompts, "--invariant")
    for prompt, other in zip(prompts, together):
        (alone,) = answers(weights, [prompt], "--invariant", "--chunk", 128, "--page", 32)
        assert alone.tokens == other.tokens and alone.logits == other.logits


def exact_rotation(x, position_ids):
    """cos and sin of RoPE, the angles in f64. transformers rounds them to f32, which at position 1500 moves logits by 3e-4."""
    angle = position_ids[..., None].double() * 100000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    angle = torch.cat((angle, angle), -1)
    return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


def test_logits(model, prompts, tmp_path, monkeypatch):
    tokens = prompts[7]
    ours = logits(F32, tokens, tmp_path)

    def reference(model):
        with torch.no_grad():
            return model(torch.tensor([tokens])).logits[0].numpy()

    in_f64 = load(torch.float64)
    as_it_is = reference(model)
    for one in (model, in_f64):
        monkeypatch.setattr(one.model.rotary_emb, "forward", exact_rotation)
    exact_angles, in_f64 = reference(model), reference(in_f64)
    apart = lambda a, b: np.abs(a - b).max()
    note(f"largest difference of {ours.size} logits: from transformers {apart(ours, as_it_is):.1e}, with exact angles of RoPE "
         f"{apart(ours, exact_angles):.1e}; from f64 {apart(ours, in_f64):.1e}, of transformers {apart(as_it_is, in_f64):.1e}")
    assert apart(ours, exact_angles) < 2e-4
    assert apart(ours, in_f64) < 2e-4
    # Where transformers' own angles are exact enough, so as it is.
    assert apart(ours[:512], as_it_is[:512]) < 2e-4


def test_perplexity(model, tokenizer, docs):
    tokens = tokenizer.encode(docs[:20000]).ids
    with torch.no_grad():
        x = model(torch.tensor([tokens])).logits[0]
        reference = torch.nn.functional.cross_entropy(x[:-1].double(), torch.tensor(tokens[1:])).exp().item()
    f32, bf16 = perplexity(F32, tokens), perplexity(BF16, tokens)
    note(f"perplexity of {len(tokens)} tokens: transformers {reference:.6f}, f32 {f32:.6f}, bf16 {bf16:.6f}")
    assert abs(f32 / reference - 1) < 1e-4
    assert abs(bf16 / reference - 1) < 1e-2


# Four bits with groups of 32 channels cost a model of 135 million parameters more than is wanted: 4.4 % in f32, 5.6 % in bf16
# (6.9 % without the rotation).
FOUR_BITS = pytest.mark.xfail(strict=True, reason="int4: 5.6 % in bf16")


@pytest.mark.parametrize("cache, bound", [("int8", 0.005), pytest.param("int4", 0.03, marks=FOUR_BITS)])
def test_perplexity_of_quantised_caches(tokenizer, docs, cache, bound):
    tokens = tokenizer.encode(docs[:20000]).ids
    plain = perplexity(BF16, tokens)
    quantised = perplexity(BF16, tokens, "--cache", cache)
    note(f"perplexity in bf16: cache of bf16 {plain:.6f}, of {cache} {quantised:.6f}")
    assert abs(quantised / plain - 1) < bound
