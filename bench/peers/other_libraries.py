# SPDX-License-Identifier: MIT
"""PyTorch, onnxruntime, OpenVINO and llama.cpp, where they are installed."""

import importlib
import os

import numpy as np

from arrays import aligned, zeros_like


class Peers:
    """Modules that are there, and the missing ones in words."""

    def __init__(self, threads, only=None):
        self.threads, self.missing, self.versions = threads, [], {"numpy": np.__version__}
        # Two OpenMP libraries in one process are told the same.
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        self.torch = self._load("torch", only)
        self.ort = self._load("onnxruntime", only)
        self.onnx = self._load("onnx", only, "onnxruntime") if self.ort else None
        if self.ort and not self.onnx:
            self.ort = None
        self.openvino = self._load("openvino", only)
        self.llama = self._load("llama_cpp", only)
        if self.torch:
            self.torch.set_num_threads(threads)
            self.torch.set_grad_enabled(False)

    def _load(self, name, only, part_of=None):
        if only and (part_of or name) not in only:
            return None
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            self.missing.append(f"{name} ({error})")
            return None
        self.versions[name] = module.__version__
        return module

    def tensors(self, *arrays):
        return [None if a is None else self._tensor(a) for a in arrays]

    def _tensor(self, array):
        array = aligned(array)
        if array.dtype.name == "bfloat16":
            return self.torch.from_numpy(array.view(np.uint16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(array)

    def compiled(self, function):
        """torch.compile for exactly these shapes; what earlier cells compiled is dropped, and its guards are not checked."""
        self.torch.compiler.reset()
        return self.torch.compile(function, dynamic=False)

    def openvino_attention(self, arrays, causal, precision):
        """arrays: query, key, value, and a boolean mask if there is one; all at the network's border as they are."""
        ov = self.openvino
        from openvino import opset13

        arrays = [aligned(x) for x in arrays]
        types = {"float32": ov.Type.f32, "float16": ov.Type.f16, "bfloat16": ov.Type.bf16, "bool": ov.Type.boolean}

        def tensor(array):
            kind = types[array.dtype.name]
            if kind == ov.Type.bf16:
                return ov.Tensor(array.view(np.uint16), array.shape, kind)
            return ov.Tensor(array, shared_memory=True)

        parameters = [opset13.parameter(a.shape, types[a.dtype.name]) for a in arrays]
        model = ov.Model([opset13.scaled_dot_product_attention(*parameters, causal=causal)], parameters)
        settings = {"INFERENCE_NUM_THREADS": self.threads, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
        request = ov.Core().compile_model(model, "CPU", settings).create_infer_request()
        out = zeros_like(arrays[0])
        for number, array in enumerate(arrays):
            request.set_input_tensor(number, tensor(array))
        request.set_output_tensor(0, tensor(out))

        def call(_keep=arrays):
            request.infer()
            return out

        return call

    @staticmethod
    def lazy(make):
        """The call that make() answers, made when it is first called: what then fails is that program's alone."""
        made = []

        def call():
            if not made:
                made.append(make())
            return made[0]()

        return call

    def graph(self, nodes, inputs, out, constants=None, opset=23):
        """A call of an ONNX graph. nodes: (operator, inputs, outputs, attributes), with "com.microsoft:" before operators of
        onnxruntime's own. inputs, constants: arrays by name. The result is `out`, the graph's output named out; other outputs
        that a node names but nobody reads are dropped."""
        inputs = {name: aligned(x) for name, x in inputs.items()}
        helper, types = self.onnx.helper, self.onnx.TensorProto
        element = {"float32": types.FLOAT, "float16": types.FLOAT16, "bool": types.BOOL, "int32": types.INT32,
                   "int64": types.INT64, "int8": types.INT8, "uint8": types.UINT8}

        def info(name, array):
            return helper.make_tensor_value_info(name, element[array.dtype.name], array.shape)

        made = []
        for operator, node_inputs, node_outputs, attributes in nodes:
            domain, _, name = operator.rpartition(":")
            made.append(helper.make_node(name, node_inputs, node_outputs, domain=domain, **attributes))
        outputs = out if isinstance(out, dict) else {"out": out}
        graph = helper.make_graph(made, "peer", [info(*i) for i in inputs.items()], [info(*o) for o in outputs.items()],
                                  [self.onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()])
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        settings = self.ort.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = self.threads, 3
        # Else its threads go on spinning after a call, into the time of the next program.
        settings.add_session_config_entry("session.force_spinning_stop", "1")
        session = self.ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

        def call(_keep=(inputs, outputs)):
            session.run_with_iobinding(binding)
            return outputs["out"]

        return call
