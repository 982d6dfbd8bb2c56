# SPDX-License-Identifier: MIT
"""examples/language_model on a small random model, against its forward pass in NumPy."""
import numpy as np
import pytest
from program import answers, call, logits, perplexity, words
from tiny_model import SIZES, VOCABULARY, bf16, forward, int4_rows, int8_rows, random_weights, write

F32 = dict(eps=np.finfo(np.float32).eps, rounded=lambda x: x)
BF16 = dict(eps=2.0**-8, rounded=lambda x: bf16(x))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Paths and weights of the same model in both types; the weights are numbers of bf16."""
    folder = tmp_path_factory.mktemp("tiny")
    weights = {name: bf16(x) if x.ndim == 2 else x for name, x in random_weights(1).items()}
    for kind in ("f32", "bf16"):
        write(folder / f"{kind}.safetensors", weights, kind)
    return {kind: folder / f"{kind}.safetensors" for kind in ("f32", "bf16")}, weights


def some_tokens(count, seed=0):
    return np.random.default_rng(seed).integers(VOCABULARY, size=count).tolist()


@pytest.mark.parametrize("window", [0, 20])
@pytest.mark.parametrize("kind, rule", [("f32", F32), ("bf16", BF16)])
def test_logits(models, tmp_path, kind, rule, window):
    # The error rule of tests/support/error_rule.h: twice the error of the plain computation in the same type, and a floor.
    paths, weights = models
    tokens = some_tokens(75)
    exact = forward(weights, tokens, np.float64, window=window)
    plain = forward(weights, tokens, np.float32, rule["rounded"], window=window)
    bound = 2 * np.abs(plain - exact).max() + 4 * rule["eps"] * np.abs(exact).max()
    windows = ["--window", window] if window else []
    for options in ([], ["--chunk", 7, "--page", 16], ["--threads", 1, "--invariant"], ["--chunk", 1, "--page", 32]):
        got = logits(paths[kind], tokens, tmp_path, *options, *windows)
        assert got.shape == exact.shape and np.abs(got - exact).max() <= bound, options


def test_perplexity(models):
    paths, weights = models
    tokens = some_tokens(60)
    x = forward(weights, tokens, np.float64)[:-1]
    log_p = x - x.max(-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(-1, keepdims=True))
    exact = np.exp(-log_p[np.arange(59), tokens[1:]].mean())
    assert perplexity(paths["f32"], tokens) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("cache, rows", [("int8", int8_rows), ("int4", int4_rows)])
def test_quantised_cache(models, tmp_path, cache, rows):
    # Two roundings to the same grid differ where a number lies between two of its points: the program's difference from the
    # cache that is not quantised is compared with that of NumPy.
    paths, weights = models
    tokens = some_tokens(75)
    got = logits(paths["f32"], tokens, tmp_path, "--cache", cache)
    exact = forward(weights, tokens, np.float64)
    quantised = forward(weights, tokens, np.float64, store=lambda k, v: (rows(k), rows(v)))
    error = lambda x: np.sqrt(np.square(x - exact).mean())
    assert 0 < error(got) <= 1.5 * error(quantised)


def test_greedy_answers(models):
    paths, weights = models
    prompts = [some_tokens(count, count) for count in (1, 5, 16, 40)]
    for prompt, answer in zip(prompts, answers(paths["f32"], prompts, "--page", 16, request="max=12")):
        rows = forward(weights, prompt + answer.tokens, np.float64)[len(prompt) - 1 : -1]
        assert len(answer.tokens) == 12 and answer.tokens == rows.argmax(-1).tolist()
        assert [float.fromhex(x) for x in answer.logits] == pytest.approx(rows.max(-1), rel=1e-5)


def mixed_prompts():
    """Eight prompts; the last three begin with the same 40 tokens."""
    prompts = [some_tokens(count, count) for count in (3, 17, 64, 90, 150)]
    return prompts + [some_tokens(40, 7) + some_tokens(count, count) for count in (1, 20, 33)]


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_alone_and_together(models, kind):
    paths, _ = models
    prompts = mixed_prompts()
    options = ["--page", 16, "--chunk", 50, "--invariant"]
    together = answers(paths[kind], prompts, *options, request="max=30")
    for prompt, other in zip(prompts, together):
        (alone,) = answers(paths[kind], [prompt], *options, request="max=30")
        assert alone.tokens == other.tokens and alone.logits == other.logits  # every bit
        (at_once,) = answers(paths[kind], [prompt], "--page", 64, "--invariant", "--threads", 1, request="max=30")
        assert at_once.tokens == other.tokens and at_once.logits == other.logits
    # Without `invariant` the tokens are the same, the last bits need not be.
    if kind == "f32":
        assert [a.tokens for a in answers(paths[kind], prompts, "--page", 16, request="max=30")] == [a.tokens for a in together]


def test_shared_pages(models):
    paths, _ = models
    prompts = mixed_prompts()
    shared = answers(paths["f32"], prompts, "--page", 16, "--invariant", request="max=30")
    own = answers(paths["f32"], prompts, "--page", 16, "--invariant", "--no-sharing", request="max=30")
    assert [a.done["shared"] for a in shared] == [0, 0, 0, 0, 0, 0, 32, 32]
    assert [a.done["shared"] for a in own] == [0] * 8
    assert [a.logits for a in shared] == [a.logits for a in own]


def test_a_dialogue_finds_its_pages(models):
    # One request at a time: the second goes on where the answer to the first ended.
    paths, _ = models
    (first,) = answers(paths["f32"], [some_tokens(50)], "--page", 16, request="max=30")
    longer = some_tokens(50) + first.tokens + some_tokens(9, 1)
    both = answers(paths["f32"], [some_tokens(50), longer], "--page", 16, "--requests", 1, request="max=30")
    assert both[0].tokens == first.tokens
    assert both[1].done["shared"] == 64  # of 50 tokens and 29 of the answer
    (alone,) = answers(paths["f32"], [longer], request="max=30")
    assert alone.tokens == both[1].tokens


def test_a_pool_that_is_too_small_for_all(models):
    # Four pages hold one of the requests at a time: pages are given away, and no answer suffers.
    paths, _ = models
    prompts = [some_tokens(20, 1), some_tokens(20, 2) + some_tokens(20, 3), some_tokens(20, 1), some_tokens(33, 4)]
    small = answers(paths["f32"], prompts, "--page", 16, "--context", 64, "--invariant", request="max=20")
    large = answers(paths["f32"], prompts, "--page", 16, "--invariant", request="max=20")
    assert [a.logits for a in small] == [a.logits for a in large]


def test_stop_tokens(models):
    paths, _ = models
    prompt = some_tokens(10)
    (answer,) = answers(paths["f32"], [prompt], request="max=20")
    stops = answer.tokens[9], answer.tokens[6]
    (stopped,) = answers(paths["f32"], [prompt], request=f"max=20 stop={stops[0]},{stops[1]}")
    assert stopped.tokens == answer.tokens[: min(answer.tokens.index(token) for token in stops) + 1]


def test_sampling(models):
    # 600 first tokens: none is outside the nucleus, and each has its share.
    paths, weights = models
    prompt, temperature, top_p, count = some_tokens(5), 0.9, 0.7, 600
    lines = "\n".join(f"{n} max=1 temperature={temperature} top_p={top_p} seed={n} : {words(prompt)}" for n in range(count))
    out = [line.split() for line in call(paths["f32"], text=lines).splitlines() if " token " in line]
    drawn = np.bincount([int(line[2]) for line in out], minlength=VOCABULARY)
    x = forward(weights, prompt, np.float64)[-1] / temperature
    p = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    order = np.argsort(-p)
    nucleus = order[: np.searchsorted(np.cumsum(p[order]), top_p) + 1]
    share = np.zeros_like(p)
    share[nucleus] = p[nucleus] / p[nucleus].sum()
    assert len(nucleus) > 3 and drawn.sum() == count
    assert np.all(np.abs(drawn - count * share) <= 5 * np.sqrt(count * share * (1 - share)))
    again = [line.split() for line in call(paths["f32"], text=lines).splitlines() if " token " in line]
    assert sorted(out) == sorted(again)
    (greedy,) = answers(paths["f32"], [prompt], request="max=8")
    (least,) = answers(paths["f32"], [prompt], request="max=8 temperature=1 top_p=1e-9 seed=5")
    assert least.tokens == greedy.tokens


def test_queries_and_keys(models, tmp_path):
    # The weights that they make are those of the model: softmax(q k) v, up to the layer's values, is checked by the logits;
    # here RoPE and the order of heads are, by the first layer in NumPy.
    paths, weights = models
    tokens = some_tokens(30)
    call(paths["f32"], "--queries-keys", 0, f"{tmp_path}/", "--chunk", 8, text=words(tokens))
    x = weights["model.embed_tokens.weight"].astype(np.float64)[tokens]
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weights["model.layers.0.input_layernorm.weight"]
    half = SIZES["head_dim"] // 2
    angle = np.arange(30)[:, None] * SIZES["rope_base"] ** (-np.arange(half) / half)
    for name, short in (("query", "q"), ("key", "k")):
        z = (y @ weights[f"model.layers.0.self_attn.{short}_proj.weight"].T).reshape(30, -1, 2 * half).swapaxes(0, 1)
        a, b = z[..., :half], z[..., half:]
        turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)
        assert np.abs(np.load(tmp_path / f"{name}.npy")[0] - turned).max() < 1e-5


@pytest.mark.parametrize("line, message", [
    ("a", "there is no ':'"),
    ("a max=5 1 2", "unknown word '1'"),
    ("a max=five : 1", "max: expected a number, got 'five'"),
    ("a size=5 : 1", "unknown word 'size=5'"),
    ("a top_p=0 : 1", "top_p must be above 0"),
    ("a temperature=-1 : 1", "temperature must be from 0"),
    ("a max=5 : 1 97", "no token 97"),
    ("a max=5 : 1 -1", "no token -1"),
    ("a max=5 :", "has no tokens"),
    ("a max=0 : 1", "asks for no tokens"),
    ("a max=512 : 1", "may have 513 tokens; the model takes 512"),
    ("a max=5 : 1 x", "token: expected a number, got 'x'"),
])  # fmt: skip
def test_bad_requests(models, line, message):
    # A refused line disturbs no other.
    out = call(models[0]["f32"], text=f"{line}\nb max=2 : 1 2\n").splitlines()
    refused = [x for x in out if x.startswith("a")]
    assert len(refused) == 1 and refused[0].startswith("a refused: ") and message in refused[0]
    assert sum(x.startswith("b token") for x in out) == 2


def test_bad_calls(models, tmp_path):
    model = models[0]["f32"]
    good = model.read_bytes()
    assert "No such file" in call(tmp_path / "none", fails=True)
    assert "unknown option --fast" in call(model, "--fast", fails=True)
    assert "--chunk must be at least 1" in call(model, "--chunk", "0", fails=True)
    assert "--cache must be f32, bf16, int8 or int4" in call(model, "--cache", "int5", fails=True)
    assert "multiple of 16" in call(model, "--page", "24", text="a : 1\n", fails=True)
    assert "layers are 0 to 1" in call(model, "--queries-keys", 2, f"{tmp_path}/", text="1 2", fails=True)
    bad = tmp_path / "bad.safetensors"
    for content, message in [
        (good[:1000], "its header is longer"),
        (b"\xff" * 100, "its header is longer"),
        (b"\x02" + bytes(7) + b"[]", "expected"),
        (good.replace(b'"width"', b'"depth"'), "no width"),
        (good[:-4], "does not lie within"),
        (good.replace(b"F32", b"F99", 1), "type F99"),
    ]:
        bad.write_bytes(content)
        assert message in call(bad, text="", fails=True)
