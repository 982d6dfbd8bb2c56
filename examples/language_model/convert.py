# SPDX-License-Identifier: MIT
"""Llama models: from a GGUF file to the files that the program and scripts/chat read.

convert.py MODEL.gguf FOLDER [f32|bf16 ...]     FOLDER/<type>.safetensors for each type, and FOLDER/tokenizer.json

Needs the packages gguf, safetensors and tokenizers. Tensors have the names and the layout of Hugging Face's Llama; norms stay
f32, the sizes of the model are in the metadata.
"""
import pathlib
import sys

import gguf
import numpy as np

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
WHOLE_MODEL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
CONTROL = 3  # gguf.TokenType.CONTROL


def sizes_of(reader):
    """The sizes of the model, as strings: metadata of the safetensors file."""
    field = lambda name: reader.get_field(name).contents()
    if field("general.architecture") != "llama":
        sys.exit(f"convert: the architecture is {field('general.architecture')}, which must be llama")
    if reader.get_field("llama.rope.scaling.type"):
        sys.exit("convert: the model scales its positions, which the program does not know")
    width, heads = field("llama.embedding_length"), field("llama.attention.head_count")
    head_dim = width // heads
    if field("llama.rope.dimension_count") != head_dim:
        sys.exit("convert: RoPE turns a part of each head only, which the program does not know")
    sizes = {
        "layers": field("llama.block_count"),
        "width": width,
        "heads": heads,
        "key_heads": field("llama.attention.head_count_kv"),
        "head_dim": head_dim,
        "hidden": field("llama.feed_forward_length"),
        "positions": field("llama.context_length"),
        "rope_base": field("llama.rope.freq_base"),
        "norm_eps": field("llama.attention.layer_norm_rms_epsilon"),
    }
    return {name: repr(value) for name, value in sizes.items()}


def name_of(name):
    parts = name.removesuffix(".weight").split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"
    return f"{WHOLE_MODEL[parts[0]]}.weight"


def halves(weight, heads):
    """Rows of queries or keys from the order of GGUF, where RoPE turns channels 2t and 2t + 1 of a head, to t and t + D / 2."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def tensors_of(reader, sizes):
    """(name, f32 array) of each tensor."""
    for tensor in reader.tensors:
        if tensor.name.startswith("rope_freqs"):
            sys.exit("convert: the model has frequencies of its own for RoPE, which the program does not know")
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        if ".attn_q." in tensor.name:
            weight = halves(weight, int(sizes["heads"]))
        elif ".attn_k." in tensor.name:
            weight = halves(weight, int(sizes["key_heads"]))
        yield name_of(tensor.name), np.ascontiguousarray(weight)


def bf16(x):
    """The bits of x rounded to bf16, to nearest with ties to even."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def write_weights(reader, folder, types):
    from safetensors import TensorSpec, serialize_file

    sizes = sizes_of(reader)
    arrays = dict(tensors_of(reader, sizes))
    for kind in types:
        file = folder / f"{kind}.safetensors"
        part = folder / f"{kind}.part"
        stored = {name: bf16(x) if kind == "bf16" and x.ndim == 2 else x for name, x in arrays.items()}
        specs = {
            name: TensorSpec(dtype="bfloat16" if x.dtype == np.uint16 else "float32", shape=list(x.shape),
                             data_ptr=x.ctypes.data, data_len=x.nbytes)
            for name, x in stored.items()
        }
        serialize_file(specs, part, metadata=sizes)
        part.replace(file)
        print(f"  {file}: {file.stat().st_size / 1e6:.0f} MB")


def write_tokenizer(reader, folder):
    """The byte-level BPE of GPT-2, with single digits."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    field = lambda name: reader.get_field(f"tokenizer.ggml.{name}").contents()
    if field("model") != "gpt2" or field("pre") != "smollm":
        sys.exit(f"convert: the tokenizer is {field('model')} {field('pre')}, which must be gpt2 smollm")
    tokens = field("tokens")
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    tokenizer = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, normalized=False, special=True) for t, kind in zip(tokens, field("token_type")) if kind == CONTROL])
    tokenizer.save(str(folder / "tokenizer.json"))


def main():
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= {"f32", "bf16"}:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(sys.argv[1])
    write_tokenizer(reader, folder)
    write_weights(reader, folder, sys.argv[3:] or ["f32", "bf16"])


if __name__ == "__main__":
    main()
