# SPDX-License-Identifier: MIT
"""The encoder as a graph of ONNX, run by ONNX Runtime in f32: a peer of sentence_encoder. Sentences of a batch are padded, and
keys past the end of their sentence are masked."""
import numpy as np
import onnxruntime
import reference
from onnx import TensorProto, helper, numpy_helper


class Graph:
    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], []

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, kind, *inputs, **attributes):
        inputs = [self.constant(i) if isinstance(i, np.ndarray) else i for i in inputs]
        self.nodes.append(helper.make_node(kind, inputs, [f"t{len(self.nodes)}"], **attributes))
        return f"t{len(self.nodes) - 1}"

    def weight(self, name):
        return self.weights[name].astype(np.float32)

    def linear(self, name, x):
        return self.op("Add", self.op("MatMul", x, self.weight(f"{name}.weight").T), self.weight(f"{name}.bias"))

    def norm(self, name, x):
        return self.op("LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"),
                       epsilon=reference.EPSILON)


def ints(*x):
    return np.array(x, np.int64)


def layer(g, name, x, mask, heads, width):
    """One layer. x: (B, S, width). mask: (B, 1, 1, S), 0 or -inf, added to the scores."""
    split = lambda y, order: g.op("Transpose", g.op("Reshape", y, ints(0, 0, heads, width // heads)), perm=order)
    query, key, value = (split(g.linear(f"{name}.attention.self.{part}", x), order)
                         for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])))
    score = g.op("Mul", g.op("MatMul", query, key), np.array((width // heads) ** -0.5, np.float32))
    attended = g.op("MatMul", g.op("Softmax", g.op("Add", score, mask), axis=-1), value)
    attended = g.op("Reshape", g.op("Transpose", attended, perm=[0, 2, 1, 3]), ints(0, 0, width))
    x = g.norm(f"{name}.attention.output.LayerNorm", g.op("Add", x, g.linear(f"{name}.attention.output.dense", attended)))
    hidden = g.op("Gelu", g.linear(f"{name}.intermediate.dense", x))
    return g.norm(f"{name}.output.LayerNorm", g.op("Add", x, g.linear(f"{name}.output.dense", hidden)))


class Session:
    """weights: arrays by name, as of reference.load."""

    def __init__(self, weights, heads, threads=0):
        g = Graph(weights)
        width = weights["embeddings.LayerNorm.weight"].shape[0]
        x = g.op("Add", g.op("Gather", g.weight("embeddings.word_embeddings.weight"), "tokens"),
                 g.op("Gather", g.weight("embeddings.position_embeddings.weight"), "positions"))
        x = g.norm("embeddings.LayerNorm", g.op("Add", x, g.weight("embeddings.token_type_embeddings.weight")[0]))
        for n in range(sum(name.endswith("attention.self.query.weight") for name in weights)):
            x = layer(g, f"encoder.layer.{n}", x, "mask", heads, width)
        mean = g.op("Squeeze", g.op("MatMul", "shares", x), ints(1))
        out = g.op("LpNormalization", mean, p=2, axis=1)
        inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["B", "S"]),
                  helper.make_tensor_value_info("positions", TensorProto.INT64, ["S"]),
                  helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["B", 1, 1, "S"]),
                  helper.make_tensor_value_info("shares", TensorProto.FLOAT, ["B", 1, "S"])]
        graph = helper.make_graph(g.nodes, "encoder", inputs,
                                  [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["B", width])], g.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def embeddings(self, tokens):
        """tokens: a list for each sentence of the batch. Returns (B, width)."""
        lengths = np.array([len(t) for t in tokens])
        padded = np.zeros((len(tokens), lengths.max()), np.int64)
        for row, t in zip(padded, tokens):
            row[:len(t)] = t
        kept = np.arange(padded.shape[1]) < lengths[:, None]
        mask = np.where(kept, 0, -np.inf).astype(np.float32)[:, None, None]
        shares = (kept / lengths[:, None]).astype(np.float32)[:, None]
        positions = np.arange(padded.shape[1], dtype=np.int64)
        return self.session.run(None, {"tokens": padded, "positions": positions, "mask": mask, "shares": shares})[0]
