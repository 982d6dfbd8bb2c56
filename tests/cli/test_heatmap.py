# SPDX-License-Identifier: MIT
"""The picture of the weights: well-formed, one cell a weight, words on the axes."""
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

SVG = "{http://www.w3.org/2000/svg}"


def draw(problem, *more):
    problem.succeeds("--weights", "weights.npy", "--heatmap", "w.svg", *more)
    return ET.parse(problem.folder / "w.svg").getroot()


def panels(root):
    return [g for g in root.iter(SVG + "g") if g.get("class") == "panel"]


def texts(element, css_class):
    return [t.text for t in element.iter(SVG + "text") if t.get("class") == css_class]


def cells(element):
    return [r for r in element.iter(SVG + "rect") if r.get("class") == "cell"]


def test_one_panel_a_head_one_cell_a_weight(problem):
    root = draw(problem)
    weights = problem.load("weights")
    assert texts(root, "panel-title") == [f"batch {b}, head {h}" for b in range(2) for h in range(4)]
    for panel, expected in zip(panels(root), weights.reshape(8, 3, 5), strict=True):
        assert texts(panel, "query") == ["0", "1", "2"] and texts(panel, "key") == ["0", "1", "2", "3", "4"]
        shown = [c.find(SVG + "title").text for c in cells(panel)]
        assert len(shown) == 15
        for text, (i, j), w in zip(shown, np.ndindex(3, 5), expected.ravel(), strict=True):
            assert re.fullmatch(rf"{i} → {j}: .*", text) and abs(float(text.split(": ")[1]) - w) <= 1e-3 * w


def check_cells(root, weights):
    """Every panel has its weights, one a cell."""
    weights = weights.reshape(-1, *weights.shape[-2:])
    for panel, expected in zip(panels(root), weights, strict=True):
        shown = [float(c.find(SVG + "title").text.split(": ")[1]) for c in cells(panel)]
        assert np.allclose(shown, expected.ravel(), rtol=1e-3, atol=1e-12)


def test_picture_with_every_option(problem):
    # Also where the file has scores, the picture is of the weights, before dropout.
    rng = np.random.default_rng(4)
    problem.save(m=rng.random((3, 5)) < 0.6, b=rng.standard_normal((4, 1, 5), np.float32), s=rng.standard_normal(4, np.float32))
    options = ["--mask", "m.npy", "--bias", "b.npy", "--softcap", "2", "--sinks", "s.npy", "--alibi", "auto",
               "--score", "cosine"]
    root = draw(problem, *options)
    weights = problem.load("weights")
    check_cells(root, weights)
    for mode in ("0", "2"):
        check_cells(draw(problem, *options, "--dropout", "0.5", "--weights-mode", mode), weights)
    problem.succeeds("--heatmap", "w.svg", *options)
    check_cells(ET.parse(problem.folder / "w.svg").getroot(), weights)


def test_average_over_heads(problem):
    draw(problem)
    expected = problem.load("weights").mean(axis=1)
    root = draw(problem, "--average-weights")
    assert texts(root, "panel-title") == ["batch 0", "batch 1"]
    assert problem.load("weights").shape == (2, 3, 5)
    check_cells(root, expected)


def test_more_than_four_extents(problem):
    problem.save(**{n: np.stack([problem.load(n)] * 3) for n in "qkv"}, lens=np.array([[1, 2], [3, 4], [5, 0]], np.int32))
    root = draw(problem, "--valid-lens", "lens.npy")
    assert texts(root, "panel-title") == [f"batch {b}, head {h}" for b in range(6) for h in range(4)]
    assert [len(cells(p)) for p in panels(root)] == [3 * n for n in (1, 2, 3, 4, 5, 0) for _ in range(4)]


@pytest.mark.parametrize("command", ["additive", "mha"])
def test_pictures_of_layers(request, command):
    problem = request.getfixturevalue(command)
    (problem.folder / "q.txt").write_text("il\ndort\nbien\n")
    (problem.folder / "k.txt").write_text("he\nsleeps\nvery\nwell\n.\n")
    root = draw(problem, "--labels-query", "q.txt", "--labels-key", "k.txt")
    check_cells(root, problem.load("weights"))
    heads = 4 if command == "mha" else 1
    assert len(panels(root)) == 2 * heads
    for panel in panels(root):
        assert texts(panel, "query") == ["il", "dort", "bien"] and texts(panel, "key")[:2] == ["he", "sleeps"]
    assert len(panels(draw(problem, "--average-weights"))) == 2


@pytest.mark.parametrize("shape, lens, counts", [((2, 3, 5), [3, 0], [9, 0]), ((2, 3, 5), [[1, 2, 3], [0, 5, 5]], [6, 10]),
                                                 ((2, 2, 3, 5), [3, 1], [9, 9, 3, 3]), ((3, 5), [1, 2, 0], [3])])
def test_pictures_of_a_softmax(softmax, shape, lens, counts):
    softmax.save(s=np.random.default_rng(5).standard_normal(shape, np.float32), lens=np.array(lens, np.int32))
    softmax.succeeds("--valid-lens", "lens.npy", "--heatmap", "w.svg")
    assert [len(cells(p)) for p in panels(ET.parse(softmax.folder / "w.svg").getroot())] == counts
    # Filled with a number, all cells have a weight.
    out = softmax.succeeds("--valid-lens", "lens.npy", "--fill", "seed", "--heatmap", "w.svg")
    check_cells(ET.parse(softmax.folder / "w.svg").getroot(), out)


def test_darker_is_heavier(problem):
    root = draw(problem, "--scale", "3")
    light = np.array([sum(int(c.get("fill")[n:n + 2], 16) for n in (1, 3, 5)) for c in cells(root)])
    order = np.argsort(problem.load("weights").ravel(), kind="stable")
    assert np.all(np.diff(light[order]) <= 0)


def test_everything_is_inside_the_picture(problem):
    root = draw(problem)
    width, height = float(root.get("width")), float(root.get("height"))
    seen = set()
    for panel in panels(root):
        dx, dy = map(float, re.fullmatch(r"translate\((\S+) (\S+)\)", panel.get("transform")).groups())
        for cell in cells(panel):
            x, y = dx + float(cell.get("x")), dy + float(cell.get("y"))
            assert 0 <= x and x + float(cell.get("width")) <= width and 0 <= y and y + float(cell.get("height")) <= height
            seen.add((round(x, 1), round(y, 1)))
    assert len(seen) == 2 * 4 * 3 * 5, "cells lie on each other"


def test_one_head(problem):
    problem.save(**{n: problem.load(n)[:1, 0] for n in "qkv"})
    assert texts(draw(problem), "panel-title") == ["head 0"]


def test_words(problem):
    words = ["<b>", "&", "größe", "日本", "]]>", "more than there are rows"]
    (problem.folder / "q.txt").write_text("\ufeffthe\r\ncat\r\nsat\r\n", encoding="utf-8", newline="")
    (problem.folder / "k.txt").write_text("\n".join(words), encoding="utf-8")
    root = draw(problem, "--labels-query", "q.txt", "--labels-key", "k.txt")
    for panel in panels(root):
        assert texts(panel, "query") == ["the", "cat", "sat"] and texts(panel, "key") == words[:5]
    assert cells(root)[1].find(SVG + "title").text.startswith("the → &: ")


def test_words_for_each_batch_entry(problem):
    (problem.folder / "a.txt").write_text("a\nb\nc\n")
    (problem.folder / "d.txt").write_text("d\ne\nf\n")
    shown = [texts(p, "query") for p in panels(draw(problem, "--labels-query", "a.txt", "d.txt"))]
    assert shown == [["a", "b", "c"]] * 4 + [["d", "e", "f"]] * 4
    (problem.folder / "g.txt").write_text("g\nh\ni\n")
    problem.fails("--labels-query", "--heatmap", "x.svg", "--labels-query", "a.txt", "d.txt", "g.txt", says="batch")


def test_long_words_are_shortened_but_not_in_tooltips(problem):
    (problem.folder / "q.txt").write_text("x" * 100 + "\n" + "ü" * 22 + "\n" + "ü" * 23 + "\n", encoding="utf-8")
    root = draw(problem, "--labels-query", "q.txt")
    assert texts(root, "query")[:3] == ["x" * 21 + "…", "ü" * 22, "ü" * 21 + "…"]
    assert cells(root)[0].find(SVG + "title").text.startswith("x" * 100)


def test_control_characters(problem):
    (problem.folder / "q.txt").write_bytes(b"a\x00b\n\x1b[31m\ntab\there\n")
    assert texts(draw(problem, "--labels-query", "q.txt"), "query")[:3] == ["a\ufffdb", "\ufffd[31m", "tab\there"]


@pytest.mark.parametrize("content", [b"\xff\nb\nc\n", b"a\n\xc3\n\n", b"\xc0\x80\nb\nc\n",
                                     b"\xed\xa0\x80\nb\nc\n", b"\xf5\x80\x80\x80\nb\nc\n"])
def test_labels_that_are_not_utf8(problem, content):
    (problem.folder / "q.txt").write_bytes(content)
    problem.fails("--labels-query", "--heatmap", "w.svg", "--labels-query", "q.txt", says="not UTF-8")


def test_too_few_labels(problem):
    (problem.folder / "few.txt").write_text("a\nb\n")
    problem.fails("--labels-query", "--heatmap", "w.svg", "--labels-query", "few.txt", says="2 labels for 3 rows")
    problem.fails("--labels-key", "--heatmap", "w.svg", "--labels-key", "few.txt", says="2 labels for 5 rows")
    (problem.folder / "empty.txt").write_text("")
    problem.fails("--labels-key", "--heatmap", "w.svg", "--labels-key", "empty.txt", says="0 labels for 5 rows")


def test_labels_without_a_picture(problem):
    (problem.folder / "q.txt").write_text("a\nb\nc\n")
    problem.fails("--labels-query", "--labels-query", "q.txt", says="--heatmap")


@pytest.mark.parametrize("lens", [[3, 0], [[5, 0, 1], [2, 3, 4]]])
def test_cells_beyond_a_length_are_empty(problem, lens):
    problem.save(lens=np.array(lens, np.int64))
    root = draw(problem, "--valid-lens", "lens.npy")
    per_query = np.broadcast_to(np.array(lens).reshape(2, -1), (2, 3))
    assert [len(cells(p)) for p in panels(root)] == [int(per_query[b].sum()) for b in range(2) for _ in range(4)]


def test_nan_weights(problem):
    q = problem.load("q")
    q[0, 0, 0, 0] = np.nan
    problem.save(q=q)
    root = draw(problem)
    assert sum(c.find(SVG + "title").text.endswith("nan") for c in cells(root)) == 5


@pytest.mark.parametrize("queries, keys", [(60, 60), (1, 200), (200, 1), (300, 300)])
def test_large_pictures(problem, queries, keys):
    rng = np.random.default_rng(3)
    problem.save(q=rng.standard_normal((1, queries, 8), np.float32), k=rng.standard_normal((1, keys, 8), np.float32),
                 v=rng.standard_normal((1, keys, 8), np.float32))
    root = draw(problem)
    assert len(cells(root)) == queries * keys
    if max(queries, keys) <= 60:
        assert len(texts(root, "query")) == queries and len(texts(root, "key")) == keys


@pytest.mark.parametrize("shape, says", [((1, 1, 501, 501), "250000"), ((1, 16, 126, 126), "250000"),
                                         ((1200, 1, 1, 1), "panels"), ((1200, 1, 0, 5), "panels")])
def test_absurd_pictures(problem, shape, says):
    b, h, queries, keys = shape
    key = np.ones((b, h, keys, 1), np.float32)
    problem.save(q=np.ones((b, h, queries, 1), np.float32), k=key, v=key)
    problem.fails("--heatmap", "--heatmap", "w.svg", says=says)
