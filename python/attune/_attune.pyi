"""Functions of the library Attune over arrays."""

from collections.abc import Sequence


from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attune._results import Array, ArrayLike, Attention

class UnsupportedError(ValueError):
    """The call is legal, but not served by this build, machine or variant."""

class Context:
    """
    Threads, scratch memory and the stream of calls. Any number of threads may use one at the same time.

    Environment variables are read when it is made: ATTUNE_FORCE_VARIANT, ATTUNE_VERBOSE,
    ATTUNE_RECORD_SHAPES.
    """

    def __init__(self, *, threads: int = 0, scratch_bytes_per_thread: int = 67108864, cuda_stream: int | None = None) -> None:
        """
        Args:
            threads: Most threads of a call, the caller's included; 0: one for each processor allowed.
            scratch_bytes_per_thread: Bytes of scratch kept for the next call, for each thread.
            cuda_stream: Address of the CUstream of calls on a device, for arrays of libraries that do not tell which
                stream is current (torch tells): make that stream current, too. 0 or None: the default stream.

        Raises:
            ValueError: an option is wrong.
        """

    @property
    def threads(self) -> int:
        """Most threads of a call."""

    @property
    def last_variant(self) -> str:
        """
        Name of the variant that the last successful call ran; empty before the first one.
        """

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch that are kept."""

    def release_scratch(self) -> None:
        """Gives the scratch that is kept back."""

def default_context() -> Context:
    """
    The Context of calls that name none: all cores, made by the first call.
    """

def variants() -> list[dict[str, Any]]:
    """
    All variants that are linked in, the most specific target first: name, op, dtype, head_dim, target, schedule,
    kind, shape_class, parameters, provenance, dispatched, runs_here, why_not, cost_measured.
    """

def targets() -> list[dict[str, str]]:
    """
    Targets, the most specific first: name, and what this machine lacks (empty: nothing).
    """

def default_threads() -> dict[str, Any]:
    """
    Threads of a Context that names none, and why: threads, limited_by, processors, cpu_quota (0: none).
    """

def missing_variants() -> str:
    """
    One line that says which variants for this CPU are not linked in; empty if none is missing.
    """

def alibi_slopes(heads: int) -> list[float]:
    """The standard slopes of ALiBi (Press et al., 2022), one for each head."""

def version() -> str:
    """Version of the library."""

def plan_sdpa(*, dtype: str = 'f32', score: str = 'dot_product', batch: int = 1, query_heads: int = 1, key_heads: int = 1, queries: int = 1, keys: int = 1, head_dim: int = 1, value_dim: int = 1, scored: bool = False, tables: bool = False, dropout: bool = False, place: str = 'host', invariant: bool = False, causal: str | None = None, window: tuple[int, int] | None = None, context: Context | None = None) -> dict[str, Any]:
    """
    The variant that attention of these sizes runs: variant, reason, workspace_bytes,
    workspace_bytes_of_any_lengths, variant_of_last_queries, candidates with predicted_us.

    scored: any of softcap, bias, ALiBi, mask or sinks; tables: bias or mask; place: where the tensors are, 'host' or
    'device'.
    """

def plan_product(*, op: str = 'linear', dtype: str = 'f32', entries: int = 1, rows: int = 1, columns: int = 1, depth: int = 1, weight_stride: int = 0, context: Context | None = None) -> dict[str, Any]:
    """
    The variant that linear() or batch_dot() runs for these sizes. op: linear, linear_packed or batch_dot.
    """

class Heatmap:
    """The picture of attention weights, as SVG; notebooks show it."""

    @property
    def svg(self) -> str:
        """The picture, a text of SVG."""

def heatmap(weights: ArrayLike, *, valid_lens: ArrayLike | Sequence[int] | None = None, query_labels: Sequence[str] | None = None, key_labels: Sequence[str] | None = None) -> Heatmap:
    """
    Draws attention weights: rows are queries, columns are keys, a panel for each head and batch entry.

    Args:
        weights: (B, H, Sq, Sk), (B, Sq, Sk) or (Sq, Sk).
        valid_lens: i32 (B) or (B, Sq): cells from there on stay empty.
        query_labels: A label for each query.
        key_labels: A label for each key.

    Raises:
        ValueError: more than 250000 cells or 1024 panels, or too few labels.
    """

def scaled_dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    softmax(score(query, key)) value over the keys that every given mask lets take part.

    Args:
        query: (B, Hq, Sq, Dk), or (B, S, D) for one head, or (S, D); f32, f64, bf16 or f16, last stride
            1.
        key: (B, Hkv, Sk, Dk); Hq is a multiple of Hkv (grouped-query attention).
        value: (B, Hkv, Sk, Dv).
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Hq, Sq, Dv), 0 for a query without keys; or Attention(out, lse, weights) where lse or
        weights is asked for.

    Options act in this order: score, softcap, bias, ALiBi, masks, sinks, softmax, dropout, times value.
    What masked keys and values hold has no effect; NaN in others propagates. The result has the same
    bits for any number of threads and any neighbours in the batch.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def additive_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, *, w_query: ArrayLike | None = None, w_key: ArrayLike | None = None, b_query: ArrayLike | None = None, b_key: ArrayLike | None = None, w_score: ArrayLike | None = None, b_score: float = 0.0, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    Attention with the score scale (w_score . tanh(W_q q + b_q + W_k k + b_k) + b_score) (Bahdanau et
    al., 2015).

    Args:
        query: (B, Hq, Sq, Dq), or of rank 3 or 2; f32 or f64, last stride 1.
        key: (B, Hkv, Sk, Dk).
        value: (B, Hkv, Sk, Dv).
        w_query: Projection of the query, (h, Dq); None: query is projected, of width h.
        w_key: Projection of the key, (h, Dk); None: key is projected.
        b_query: Bias of the query's projection, (h).
        b_key: Bias of the key's projection, (h).
        w_score: Weight of each unit in the score, (h); None: ones.
        b_score: Added to every score.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Hq, Sq, Dv), 0 for a query without keys; or Attention(out, lse, weights) where lse or
        weights is asked for.

    Nothing of size (B, Sq, Sk, h) is stored. scale multiplies the sum, default 1; score and
    score_weight are refused.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def variable_length_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, cu_seqlens_q: ArrayLike | Sequence[int], cu_seqlens_k: ArrayLike | Sequence[int], *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    Attention of each sequence of a packed batch: sequences one after another, without padding.

    Args:
        query: (Tq, Hq, Dk): the rows of all sequences.
        key: (Tk, Hkv, Dk).
        value: (Tk, Hkv, Dv).
        cu_seqlens_q: i32 (B + 1): sequence s has the queries [cu[s], cu[s + 1]).
        cu_seqlens_k: i32 (B + 1): and these keys.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (Tq, Hq, Dv); or Attention(out, lse, None) with lse (Hq, Tq). Rows beyond the last sequence
        are not written.

    Options count within a sequence. Refused: bias, mask, weights, valid_lens, cache_lens, the score
    "general".

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def multi_head_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, w_query: ArrayLike, w_key: ArrayLike, w_value: ArrayLike, w_out: ArrayLike, *, heads: int = 1, key_heads: int = 0, b_query: ArrayLike | None = None, b_key: ArrayLike | None = None, b_value: ArrayLike | None = None, b_out: ArrayLike | None = None, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    The multi-head attention layer (Vaswani et al., 2017): projections, attention of each head, output
    projection.

    Args:
        query: (B, Sq, Eq), last stride 1.
        key: (B, Sk, Ek).
        value: (B, Sk, Ev).
        w_query: (heads D, Eq), as linear layers have it: (out, in).
        w_key: (key_heads D, Ek).
        w_value: (key_heads Dv, Ev).
        w_out: (Eo, heads Dv).
        heads: Heads of the query; must divide the rows of w_query.
        key_heads: Heads of key and value; 0: as many as heads.
        b_query: Bias of the query's projection.
        b_key: Bias of the key's projection.
        b_value: Bias of the value's projection.
        b_out: Bias of the output projection.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Sq, Eo); or Attention(out, lse, weights).

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def paged_attention(query: ArrayLike, key_pages: ArrayLike | tuple[ArrayLike, ...], value_pages: ArrayLike | tuple[ArrayLike, ...], cu_seqlens_q: ArrayLike | Sequence[int], block_table: ArrayLike | Sequence[int], lens: ArrayLike | Sequence[int], *, scale: float | None = None, softcap: float = 0.0, distance_bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, causal: bool = True, window: tuple[int, int] | None = None, tree_mask: ArrayLike | None = None, positions: ArrayLike | None = None, sinks: ArrayLike | None = None, prefix_block_table: ArrayLike | None = None, prefix_lens: ArrayLike | Sequence[int] | None = None, prefix_of: ArrayLike | Sequence[int] | None = None, indptr: ArrayLike | Sequence[int] | None = None, weight_sums: ArrayLike | None = None, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    Attention over caches in pages of a pool (PagedAttention, Kwon et al., 2023): prompts, chunks, steps
    and trees of guesses in one call.

    Args:
        query: (Tq, Hq, Dk): queries [cu[b], cu[b + 1]) are those of sequence b.
        key_pages: (P, page, Hkv, Dk), page a multiple of 16, or 1, type of query; or quantised as
            paged_append() takes them: (rows, scale) with rows i8, or (rows, scale, minimum) with rows
            u8, two channels a byte. Not of f64.
        value_pages: (P, page, Hkv, Dv), or quantised, as keys are or otherwise.
        cu_seqlens_q: i32 (B + 1), from 0, never falling.
        block_table: i32 (B, N): row j of sequence b lies in page block_table[b, j / page].
        lens: i32 (B): rows that each sequence holds, those of its queries among them.
        scale: Factor of the score; None: 1 / sqrt(Dk).
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        distance_bias: Type of query, (Hq, R): entry r is added to scores of keys r rows before the
            query, the last one to all further.
        alibi: ALiBi with the standard slopes.
        alibi_slopes: Slopes of ALiBi: f32 (Hq) or (B, Hq).
        causal: Each query sees the rows up to its own.
        window: (left, right), from the position of the query; -1: unbounded.
        tree_mask: bool (B, S, S): query i sees new row j only where it is True.
        positions: i32 (B, S): positions of the new rows, for window beside tree_mask.
        sinks: f32 (Hq): a score of each head that joins the normaliser.
        prefix_block_table: i32 (G, N): pages of rows that several sequences begin with.
        prefix_lens: i32 (G): rows of each prefix, a multiple of 16.
        prefix_of: i32 (B): the prefix of each sequence, -1: none.
        indptr: i32 (B + 1), where block_table is one list (N): pages [indptr[b], indptr[b + 1]) of
            sequence b.
        weight_sums: Output, an array that is written, f64 for f64, else f32: (B, Hq, Sk) or (B, Hkv,
            Sk), the sum of the weights of each key over the queries of a sequence, and over the query
            heads of a group; 0 behind its rows.
        invariant: The same bits for a prompt at once, in chunks and row by row.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (Tq, Hq, Dv); or Attention(out, lse, None) with lse (Hq, Tq).

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def scaled_dot_product_attention_backward(query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, grad_lse: ArrayLike | None = None, gradients: Sequence[str] | Mapping[str, ArrayLike | None] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> dict[str, Array]:
    """
    Gradients of a loss by the inputs of scaled_dot_product_attention(). Options are those of the
    forward pass; dropout needs the same seed. Weights are recomputed: nothing of size (Sq, Sk) is
    stored but a bias gradient of that size.

    Args:
        query: query of the forward pass.
        key: key of the forward pass.
        value: value of the forward pass.
        out: Result of the forward pass.
        lse: lse of the forward pass.
        grad_out: Gradient of the loss by out, shape of out, last stride 1.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        grad_lse: Gradient of the loss by lse; None: the loss does not depend on lse.
        gradients: Names of the gradients wanted, or a mapping of names to arrays that are written
            (None: a new array); None: those of the tensors that are positional arguments.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        The gradients wanted by name: query, key, value, bias, alibi_slopes (f32), sinks (f32),
        score_weight.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def variable_length_attention_backward(query: ArrayLike, key: ArrayLike, value: ArrayLike, cu_seqlens_q: ArrayLike | Sequence[int], cu_seqlens_k: ArrayLike | Sequence[int], out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, grad_lse: ArrayLike | None = None, gradients: Sequence[str] | Mapping[str, ArrayLike | None] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> dict[str, Array]:
    """
    Gradients of a loss by the inputs of variable_length_attention(). Options are those of the forward
    pass; dropout needs the same seed.

    Args:
        query: query of the forward pass.
        key: key of the forward pass.
        value: value of the forward pass.
        cu_seqlens_q: cu_seqlens_q of the forward pass.
        cu_seqlens_k: cu_seqlens_k of the forward pass.
        out: Result of the forward pass.
        lse: lse of the forward pass.
        grad_out: Gradient of the loss by out, shape of out, last stride 1.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        grad_lse: Gradient of the loss by lse; None: the loss does not depend on lse.
        gradients: Names of the gradients wanted, or a mapping of names to arrays that are written
            (None: a new array); None: those of the tensors that are positional arguments.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        The gradients wanted by name: query, key, value, alibi_slopes (f32, as the slopes), sinks (f32).
        Rows beyond the last sequence are not written.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def additive_attention_backward(query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike, *, w_query: ArrayLike | None = None, w_key: ArrayLike | None = None, b_query: ArrayLike | None = None, b_key: ArrayLike | None = None, w_score: ArrayLike | None = None, b_score: float = 0.0, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, grad_lse: ArrayLike | None = None, gradients: Sequence[str] | Mapping[str, ArrayLike | None] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> dict[str, Array]:
    """
    Gradients of a loss by the inputs of additive_attention(). Options are those of the forward pass.

    Args:
        query: query of the forward pass.
        key: key of the forward pass.
        value: value of the forward pass.
        out: Result of the forward pass.
        lse: lse of the forward pass.
        grad_out: Gradient of the loss by out, shape of out, last stride 1.
        w_query: Projection of the query, (h, Dq); None: query is projected, of width h.
        w_key: Projection of the key, (h, Dk); None: key is projected.
        b_query: Bias of the query's projection, (h).
        b_key: Bias of the key's projection, (h).
        w_score: Weight of each unit in the score, (h); None: ones.
        b_score: Added to every score.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        grad_lse: Gradient of the loss by lse; None: the loss does not depend on lse.
        gradients: Names of the gradients wanted, or a mapping of names to arrays that are written
            (None: a new array); None: those of the tensors that are positional arguments.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        The gradients wanted by name: query, key, value, w_query, w_key, b_query, b_key, w_score, bias,
        alibi_slopes, sinks.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def multi_head_attention_backward(query: ArrayLike, key: ArrayLike, value: ArrayLike, w_query: ArrayLike, w_key: ArrayLike, w_value: ArrayLike, w_out: ArrayLike, grad_out: ArrayLike, *, heads: int = 1, key_heads: int = 0, b_query: ArrayLike | None = None, b_key: ArrayLike | None = None, b_value: ArrayLike | None = None, b_out: ArrayLike | None = None, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, gradients: Sequence[str] | Mapping[str, ArrayLike | None] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> dict[str, Array]:
    """
    Gradients of a loss by the inputs of multi_head_attention(), whose projections and attention are
    recomputed.

    Args:
        query: query of the forward pass.
        key: key of the forward pass.
        value: value of the forward pass.
        w_query: (heads D, Eq).
        w_key: (key_heads D, Ek).
        w_value: (key_heads Dv, Ev).
        w_out: (Eo, heads Dv).
        grad_out: Gradient of the loss by out, (B, Sq, Eo).
        heads: Heads of the query; must divide the rows of w_query.
        key_heads: Heads of key and value; 0: as many as heads.
        b_query: Bias of the query's projection.
        b_key: Bias of the key's projection.
        b_value: Bias of the value's projection.
        b_out: Bias of the output projection.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        gradients: Names of the gradients wanted, or a mapping of names to arrays that are written
            (None: a new array); None: those of the tensors that are positional arguments.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        The gradients wanted by name: query, key, value, w_query, w_key, w_value, w_out, b_query, b_key,
        b_value, b_out, bias, alibi_slopes, sinks, score_weight. Each is that by one argument: where
        query, key and value are one array, its gradient is their sum.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def linear_backward(x: ArrayLike | None, weight: ArrayLike | None, grad_out: ArrayLike, *, variant: str | None = None, gradients: Sequence[str] | Mapping[str, ArrayLike | None] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> dict[str, Array]:
    """
    Gradients of a loss by the inputs of linear().

    Args:
        x: (..., K), as linear() took it; None where the gradient by weight is not wanted.
        weight: (N, K), not packed; None where the gradient by x is not wanted.
        grad_out: Gradient of the loss by out, (..., N).
        variant: Run this variant, or fail; None: dispatch chooses.
        gradients: Names of the gradients wanted, or a mapping of names to arrays that are written
            (None: a new array); None: those of the tensors that are positional arguments.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        The gradients wanted by name: x, weight, bias. Without gradients: x and weight.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def linear(x: ArrayLike, weight: ArrayLike, *, bias: ArrayLike | None = None, columns: int = 0, variant: str | None = None, out: ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array:
    """
    x weight^T + bias: a linear (dense) layer.

    Args:
        x: (..., K), rank 1 to 4, last stride 1; f32, f64, bf16 or f16.
        weight: (N, K), or a weight packed by pack_linear_weight().
        bias: (N); None: no bias.
        columns: N of a packed weight, of which its extents say only the next multiple of 64; 0: all.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        (..., N).

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def pack_linear_weight(weight: ArrayLike, *, variant: str | None = None, out: ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array:
    """
    A weight in the order in which linear() reads it, for layers that are called often; the same bits as
    unpacked.

    Args:
        weight: (N, K), last stride 1.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        (ceil(N / 64), K, 64), in bf16 (ceil(N / 64), ceil(K / 2), 128).

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def batch_dot(a: ArrayLike, x: ArrayLike, *, variant: str | None = None, out: ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array:
    """
    a x: a matrix product for each entry of a batch.

    Args:
        a: (B, n, m), or of rank 2 or 4; last stride 1.
        x: (B, m, p).
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        (B, n, p).

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def masked_softmax(scores: ArrayLike, *, valid_lens: ArrayLike | Sequence[int] | None = None, fill: str = 'zero', variant: str | None = None, out: ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array:
    """
    Softmax over the last dimension, masked by valid lengths.

    Args:
        scores: (B, Sk), (B, Sq, Sk) or (B, H, Sq, Sk); f32 or f64, last stride 1.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only scores j < valid_lens take part.
        fill: Masked scores: "zero", -inf, a row without keys is 0; "seed", -1e6, such a row is uniform.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        Shape of scores; 0 where masked.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def masked_softmax_backward(result: ArrayLike, grad_out: ArrayLike, *, valid_lens: ArrayLike | Sequence[int] | None = None, fill: str = 'zero', variant: str | None = None, out: ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array:
    """
    Gradient of a loss by the scores of masked_softmax().

    Args:
        result: Result of masked_softmax().
        grad_out: Gradient by it.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only scores j < valid_lens take part.
        fill: Masked scores: "zero", -inf, a row without keys is 0; "seed", -1e6, such a row is uniform.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        Shape of result.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def dropout_mask(shape: Sequence[int], dropout_p: float, *, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, out: ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array:
    """
    Which weights dropout keeps: Philox4x32-10 of seed and indices alone.

    Args:
        shape: (B, Hq, Sq, Sk), or (B, Sq, Sk) for one head.
        dropout_p: Probability with which a weight becomes 0.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        out: Output, written in place; None: a new array.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        bool, of the shape; True where the weight is kept.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def kv_append(key: ArrayLike, value: ArrayLike, cache_lens: ArrayLike | Sequence[int], key_cache: ArrayLike, value_cache: ArrayLike, *, when_full: str = 'refuse', new_lens: ArrayLike | Sequence[int] | None = None, rotate_values: bool = False, positions: ArrayLike | None = None, norm_weight: ArrayLike | None = None, norm_eps: float = 1e-06, rope_cos: ArrayLike | None = None, rope_sin: ArrayLike | None = None, rope_base: float = 0.0, rope_scaling: float = 1.0, rope_dim: int = 0, rope_offset: int = 0, rope_pairs: str = 'halves', hadamard: bool = False, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> None:
    """
    Copies the rows of key and value behind the cache_lens[b] rows that the caches hold, in place.
    cache_lens is not changed.

    Args:
        key: (B, Hkv, S, Dk), last stride 1.
        value: (B, Hkv, S, Dv).
        cache_lens: i32 (B), from 0 to C.
        key_cache: (B, Hkv, C, Dk), written.
        value_cache: (B, Hkv, C, Dv), written.
        when_full: "refuse", or "slide": the newest C rows stand in [0, C).
        new_lens: i32 (B): only the first new_lens[b] rows are appended.
        rotate_values: Hadamard rotation of values.
        positions: i32 (B, S), for RoPE; None: cache_lens[b], cache_lens[b] + 1, ...
        norm_weight: Weight of the RMS norm of each row: (D) or (H, D); None: no norm.
        norm_eps: Added to the mean of the squares.
        rope_cos: Table of RoPE: f32 (positions, dim / 2); see rope_tables().
        rope_sin: Table of RoPE: f32 (positions, dim / 2).
        rope_base: More than 1: the base of RoPE's angles, in place of tables.
        rope_scaling: Positions are divided by it, with rope_base.
        rope_dim: Channels that RoPE rotates, even; 0: all.
        rope_offset: The first channel that RoPE rotates.
        rope_pairs: Channels that RoPE rotates together: "halves", (t, t + dim / 2), or "interleaved",
            (2t, 2t + 1).
        hadamard: Normalised Walsh-Hadamard rotation of each row; its own inverse.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        Nothing.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def paged_append(key: ArrayLike, value: ArrayLike, slots: ArrayLike, key_pages: ArrayLike | tuple[ArrayLike, ...], value_pages: ArrayLike | tuple[ArrayLike, ...], *, positions: ArrayLike | Sequence[int] | None = None, rotate_values: bool = False, norm_weight: ArrayLike | None = None, norm_eps: float = 1e-06, rope_cos: ArrayLike | None = None, rope_sin: ArrayLike | None = None, rope_base: float = 0.0, rope_scaling: float = 1.0, rope_dim: int = 0, rope_offset: int = 0, rope_pairs: str = 'halves', hadamard: bool = False, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> None:
    """
    Stores row t of key and value in page slots[t] / page, row slots[t] % page; -1 skips the row. In one
    pass: norm, RoPE, rotation, then the cast or quantisation that the pages ask for.

    Args:
        key: (T, Hkv, Dk), last stride 1.
        value: (T, Hkv, Dv).
        slots: i64 (T).
        key_pages: (P, page, Hkv, Dk) of the type of key; or (rows, scale) with rows i8; or (rows,
            scale, minimum) with rows u8, two channels a byte, and both f16 (P, page, Hkv, G). Written,
            but for a scale of the caller's own: f32 (1) or (Hkv, Dk).
        value_pages: As key_pages, of Dv channels. Written.
        positions: i32 (T), of the new rows; needed with RoPE.
        rotate_values: Hadamard rotation of values.
        norm_weight: Weight of the RMS norm of each row: (D) or (H, D); None: no norm.
        norm_eps: Added to the mean of the squares.
        rope_cos: Table of RoPE: f32 (positions, dim / 2); see rope_tables().
        rope_sin: Table of RoPE: f32 (positions, dim / 2).
        rope_base: More than 1: the base of RoPE's angles, in place of tables.
        rope_scaling: Positions are divided by it, with rope_base.
        rope_dim: Channels that RoPE rotates, even; 0: all.
        rope_offset: The first channel that RoPE rotates.
        rope_pairs: Channels that RoPE rotates together: "halves", (t, t + dim / 2), or "interleaved",
            (2t, 2t + 1).
        hadamard: Normalised Walsh-Hadamard rotation of each row; its own inverse.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        Nothing.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def transform_rows(x: ArrayLike, positions: ArrayLike | Sequence[int] | None = None, *, norm_weight: ArrayLike | None = None, norm_eps: float = 1e-06, rope_cos: ArrayLike | None = None, rope_sin: ArrayLike | None = None, rope_base: float = 0.0, rope_scaling: float = 1.0, rope_dim: int = 0, rope_offset: int = 0, rope_pairs: str = 'halves', hadamard: bool = False, out: ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array:
    """
    RMS norm, RoPE and Hadamard rotation of rows of queries or keys, in this order; each may be missing.

    Args:
        x: (T, H, D), or (B, H, S, D); last stride 1.
        positions: i32 (T), or (B, S); needed with RoPE, else None.
        norm_weight: Weight of the RMS norm of each row: (D) or (H, D); None: no norm.
        norm_eps: Added to the mean of the squares.
        rope_cos: Table of RoPE: f32 (positions, dim / 2); see rope_tables().
        rope_sin: Table of RoPE: f32 (positions, dim / 2).
        rope_base: More than 1: the base of RoPE's angles, in place of tables.
        rope_scaling: Positions are divided by it, with rope_base.
        rope_dim: Channels that RoPE rotates, even; 0: all.
        rope_offset: The first channel that RoPE rotates.
        rope_pairs: Channels that RoPE rotates together: "halves", (t, t + dim / 2), or "interleaved",
            (2t, 2t + 1).
        hadamard: Normalised Walsh-Hadamard rotation of each row; its own inverse.
        out: Output, written in place; None: a new array.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        Shape of x, rounded once.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def transform_rows_backward(x: ArrayLike, positions: ArrayLike | Sequence[int] | None, grad_out: ArrayLike, *, norm_weight: ArrayLike | None = None, norm_eps: float = 1e-06, rope_cos: ArrayLike | None = None, rope_sin: ArrayLike | None = None, rope_base: float = 0.0, rope_scaling: float = 1.0, rope_dim: int = 0, rope_offset: int = 0, rope_pairs: str = 'halves', hadamard: bool = False, gradients: Sequence[str] | Mapping[str, ArrayLike | None] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> dict[str, Array]:
    """
    Gradients of a loss by the inputs of transform_rows().

    Args:
        x: x of the forward pass.
        positions: positions of the forward pass.
        grad_out: Gradient of the loss by the result.
        norm_weight: Weight of the RMS norm of each row: (D) or (H, D); None: no norm.
        norm_eps: Added to the mean of the squares.
        rope_cos: Table of RoPE: f32 (positions, dim / 2); see rope_tables().
        rope_sin: Table of RoPE: f32 (positions, dim / 2).
        rope_base: More than 1: the base of RoPE's angles, in place of tables.
        rope_scaling: Positions are divided by it, with rope_base.
        rope_dim: Channels that RoPE rotates, even; 0: all.
        rope_offset: The first channel that RoPE rotates.
        rope_pairs: Channels that RoPE rotates together: "halves", (t, t + dim / 2), or "interleaved",
            (2t, 2t + 1).
        hadamard: Normalised Walsh-Hadamard rotation of each row; its own inverse.
        gradients: Names of the gradients wanted, or a mapping of names to arrays that are written
            (None: a new array); None: those of the tensors that are positional arguments.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        The gradients wanted by name: x, norm_weight (f32, of f64 f64).

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def rope_tables(positions: int, dim: int, base: float, *, scaling: float = 1.0, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> tuple[Array, Array]:
    """
    Tables of cosines and sines of positions 0, 1, ..., computed in double precision and rounded once.

    Args:
        positions: Number of positions.
        dim: Channels that are rotated, even.
        base: Base of the angles, such as 10000.0.
        scaling: Positions are divided by it.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        (cos, sin), both f32 (positions, dim / 2).

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def merge_attention(parts: Sequence[tuple[ArrayLike, ArrayLike]], *, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    The result of one call over the keys of all parts, from the out and lse of each (the combine step of
    Flash-Decoding).

    Args:
        parts: (out, lse) of each part: (B, Hq, Sq, Dv) and (B, Hq, Sq).
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out; or Attention(out, lse, None) where lse is asked for.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

class Communicator:
    """
    A group of ranks, and this rank in it: functions that send and receive. The library calls them from a thread of its
    own, one at a time. An exception of one makes the call raise ConnectionError, with the exception as its cause.
    """

    def __init__(self, rank: int, size: int, start_send_receive: Callable[[memoryview | None, int | None, memoryview | None, int | None], Any] | None = None, wait: Callable[[Any, float], bool] | None = None, abandon: Callable[[Any], bool] | None = None, *, time_limit: float = 60.0, any_thread: bool = True) -> None:
        """
        Args:
            rank: Number of this rank, from 0.
            size: Number of ranks; with one, no function is needed.
            start_send_receive: (send, to, receive, source): begins to send all bytes of the memoryview send to rank
                to, and to receive as many as the memoryview receive has from rank source; None, None: no such half.
                Messages from one rank to another arrive in the order in which they were started. Returns a request.
            wait: (request, seconds): waits for at most so many seconds. True: done, and the memory of the request is
                no longer used; False: not yet.
            abandon: (request): gives up a request that is not done. True: its memory is no longer used. None: it may be
                used until the process ends.
            time_limit: Seconds that a rank waits for one message.
            any_thread: False: functions are called by the thread that calls the library, between kernels alone.

        Raises:
            ValueError: an argument is wrong.
        """

    @property
    def rank(self) -> int:
        """Number of this rank."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    @property
    def time_limit(self) -> float:
        """Seconds that a rank waits for one message."""

class ParallelPlan:
    """
    Positions of every rank, equal on all ranks; plan_positions() makes it.
    """

    @property
    def positions(self) -> int:
        """Number of positions."""

    @property
    def chunk(self) -> int:
        """Positions of a chunk."""

    @property
    def of_rank(self) -> list[list[tuple[int, int]]]:
        """
        Ranges (begin, end) of positions of each rank. A caller's own may be set: the ranges of a rank rise, all
        together are all positions once, and each begins and ends at a multiple of chunk or at the last position.
        """

    @of_rank.setter
    def of_rank(self, arg: Sequence[Sequence[tuple[int, int]]], /) -> None: ...

    def positions_of(self, rank: int) -> int:
        """Number of positions of a rank: the rows of its arrays."""

def plan_positions(positions: int, ranks: int, layout: str, chunk: int = 0, *, causal: str | None = None, window: tuple[int, int] | None = None, cu_seqlens: ArrayLike | Sequence[int] | None = None) -> ParallelPlan:
    """
    Makes a plan: which positions each rank holds.

    Args:
        positions: Number of positions.
        ranks: Number of ranks; a rank may hold no positions.
        layout: "contiguous"; "head_tail", a range near the begin and one near the end; "striped", every
            R-th chunk; "balanced", a range each, of equal work: packed documents, windows.
        chunk: Positions of a chunk; 0: 2048.
        causal: "top_left" or "bottom_right", which are one mask here: a query sees the keys up to its
            own position; "offset" is refused.
        window: (left, right), as in the calls with the plan.
        cu_seqlens: Packed documents: i32 (D + 1), from 0, never falling; document d has the positions
            [cu[d], cu[d + 1]).

    Returns:
        The plan, the same on every rank that calls with the same arguments.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def forecast_parallel(plan: ParallelPlan, scheme: str, *, dtype: str = 'f32', batch: int = 1, query_heads: int = 1, key_heads: int = 1, head_dim: int = 1, value_dim: int = 1, multiply_adds_per_second: float = 100000000000.0, bytes_per_second: float = 10000000000.0, seconds_per_message: float = 5e-06) -> dict[str, Any]:
    """
    Predicts bytes and time of a function of context parallelism.

    Args:
        plan: Positions of every rank.
        scheme: The function: "ring", "ring_backward", "gathered" or "heads".
        dtype: Type of query, key and value: "f32", "f64", "bf16", "f16".
        batch: B.
        query_heads: Hq.
        key_heads: Hkv.
        head_dim: Dk.
        value_dim: Dv.
        multiply_adds_per_second: Multiply-adds of a rank in a second.
        bytes_per_second: Bytes that a link carries in a second.
        seconds_per_message: Seconds of a message beside those of its bytes.

    Returns:
        bytes_sent, exact, compute_seconds and waiting_seconds of each rank; seconds of the last rank;
        buffer_bytes.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def ring_attention(communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, report: dict[str, Any] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    Attention of this rank's queries over the keys of all ranks (Ring Attention, Liu et al., 2023).

    Args:
        communicator: The group, and this rank in it.
        plan: Positions of every rank, equal on all ranks.
        query: (B, Hq, S, Dk), S = plan.positions_of(rank): the rows of this rank, in the order of
            positions.
        key: (B, Hkv, S, Dk); Hq is a multiple of Hkv.
        value: (B, Hkv, S, Dv).
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        report: Is filled when the call returns: bytes_sent by this rank, seconds, waiting_seconds.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Hq, S, Dv); or Attention(out, lse, None).

    Collective: every rank calls, with its own arrays and otherwise equal arguments. Where ranks
    disagree, or one rank's arguments are refused, every rank raises ValueError, and nothing is written.
    ConnectionError: a message failed, or did not come within the communicator's time_limit; use the
    communicator no more. The bits are those of any number of ranks.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def gathered_attention(communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, report: dict[str, Any] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    The result of ring_attention() by an all-gather of the keys that this rank's queries may see.

    Args:
        communicator: The group, and this rank in it.
        plan: Positions of every rank, equal on all ranks.
        query: (B, Hq, S, Dk), S = plan.positions_of(rank): the rows of this rank, in the order of
            positions.
        key: (B, Hkv, S, Dk); Hq is a multiple of Hkv.
        value: (B, Hkv, S, Dv).
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        report: Is filled when the call returns: bytes_sent by this rank, seconds, waiting_seconds.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Hq, S, Dv); or Attention(out, lse, None).

    Collective: every rank calls, with its own arrays and otherwise equal arguments. Where ranks
    disagree, or one rank's arguments are refused, every rank raises ValueError, and nothing is written.
    ConnectionError: a message failed, or did not come within the communicator's time_limit; use the
    communicator no more. The bits are those of any number of ranks.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def head_parallel_attention(communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, report: dict[str, Any] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    The result of ring_attention() by an all-to-all over heads; the number of ranks divides Hkv.

    Args:
        communicator: The group, and this rank in it.
        plan: Positions of every rank, equal on all ranks.
        query: (B, Hq, S, Dk), S = plan.positions_of(rank): the rows of this rank, in the order of
            positions.
        key: (B, Hkv, S, Dk); Hq is a multiple of Hkv.
        value: (B, Hkv, S, Dv).
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        report: Is filled when the call returns: bytes_sent by this rank, seconds, waiting_seconds.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Hq, S, Dv); or Attention(out, lse, None).

    Collective: every rank calls, with its own arrays and otherwise equal arguments. Where ranks
    disagree, or one rank's arguments are refused, every rank raises ValueError, and nothing is written.
    ConnectionError: a message failed, or did not come within the communicator's time_limit; use the
    communicator no more. The bits are those of any number of ranks.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def sharded_decode(communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, weights: bool | ArrayLike | None = None, weights_mode: str = 'probabilities', average_weights: bool = False, report: dict[str, Any] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    Attention of few queries, the same on every rank, over caches that are spread over the ranks.

    Args:
        communicator: The group, and this rank in it.
        plan: Positions of every rank, equal on all ranks.
        query: (B, Hq, Sq, Dk), the same on every rank: the last Sq rows that the caches hold.
        key: (B, Hkv, S, Dk), S = plan.positions_of(rank): this rank's rows of the cache.
        value: (B, Hkv, S, Dv).
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        weights: True: also return the weights, (B, Hq, Sq, Sk); or an array.
        weights_mode: Content of weights: "scaled", "capped", "masked" scores, or "probabilities" before
            dropout.
        average_weights: weights is the mean over the heads, (B, Sq, Sk).
        report: Is filled when the call returns: bytes_sent by this rank, seconds, waiting_seconds.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Hq, S, Dv); or Attention(out, lse, None).

    Collective: every rank calls, with its own arrays and otherwise equal arguments. Where ranks
    disagree, or one rank's arguments are refused, every rank raises ValueError, and nothing is written.
    ConnectionError: a message failed, or did not come within the communicator's time_limit; use the
    communicator no more. The bits are those of any number of ranks.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def sharded_paged_decode(communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key_pages: ArrayLike | tuple[ArrayLike, ...], value_pages: ArrayLike | tuple[ArrayLike, ...], block_table: ArrayLike | Sequence[int], lens: ArrayLike | Sequence[int], *, scale: float | None = None, softcap: float = 0.0, distance_bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, causal: bool = True, window: tuple[int, int] | None = None, tree_mask: ArrayLike | None = None, positions: ArrayLike | None = None, sinks: ArrayLike | None = None, prefix_block_table: ArrayLike | None = None, prefix_lens: ArrayLike | Sequence[int] | None = None, prefix_of: ArrayLike | Sequence[int] | None = None, indptr: ArrayLike | Sequence[int] | None = None, weight_sums: ArrayLike | None = None, invariant: bool = False, variant: str | None = None, out: ArrayLike | None = None, lse: bool | ArrayLike | None = None, report: dict[str, Any] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> Array | Attention:
    """
    Attention of one query of each sequence over pages that are spread over the ranks.

    Args:
        communicator: The group, and this rank in it.
        plan: Positions of every rank, equal on all ranks.
        query: (B, Hq, Dk), the same on every rank.
        key_pages: (P, page, Hkv, Dk), this rank's, as in paged_attention().
        value_pages: (P, page, Hkv, Dv).
        block_table: i32 (B, N): row r of this rank's positions lies in page block_table[b, r / page].
        lens: i32 (B): rows of each sequence on all ranks.
        scale: Factor of the score; None: 1 / sqrt(Dk).
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        distance_bias: Type of query, (Hq, R): entry r is added to scores of keys r rows before the
            query, the last one to all further.
        alibi: ALiBi with the standard slopes.
        alibi_slopes: Slopes of ALiBi: f32 (Hq) or (B, Hq).
        causal: Each query sees the rows up to its own.
        window: (left, right), from the position of the query; -1: unbounded.
        tree_mask: bool (B, S, S): query i sees new row j only where it is True.
        positions: i32 (B, S): positions of the new rows, for window beside tree_mask.
        sinks: f32 (Hq): a score of each head that joins the normaliser.
        prefix_block_table: i32 (G, N): pages of rows that several sequences begin with.
        prefix_lens: i32 (G): rows of each prefix, a multiple of 16.
        prefix_of: i32 (B): the prefix of each sequence, -1: none.
        indptr: i32 (B + 1), where block_table is one list (N): pages [indptr[b], indptr[b + 1]) of
            sequence b.
        weight_sums: Output, an array that is written, f64 for f64, else f32: (B, Hq, Sk) or (B, Hkv,
            Sk), the sum of the weights of each key over the queries of a sequence, and over the query
            heads of a group; 0 behind its rows.
        invariant: The same bits for a prompt at once, in chunks and row by row.
        variant: Run this variant, or fail; None: dispatch chooses.
        out: Output, written in place; None: a new array.
        lse: True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query
            without keys; or an array that is written. f64 for f64, else f32.
        report: Is filled when the call returns: bytes_sent by this rank, seconds, waiting_seconds.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        out, (B, Hq, Dv); or Attention(out, lse, None) with lse (Hq, B).

    Collective: every rank calls, with its own arrays and otherwise equal arguments. Where ranks
    disagree, or one rank's arguments are refused, every rank raises ValueError, and nothing is written.
    ConnectionError: a message failed, or did not come within the communicator's time_limit; use the
    communicator no more. The bits are those of any number of ranks.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def ring_attention_backward(communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike, *, score: str = 'dot_product', score_weight: ArrayLike | None = None, scale: float | None = None, softcap: float = 0.0, bias: ArrayLike | None = None, alibi: bool = False, alibi_slopes: ArrayLike | None = None, mask: ArrayLike | None = None, causal: str | None = None, offset: int | None = None, offsets: ArrayLike | Sequence[int] | None = None, window: tuple[int, int] | None = None, valid_lens: ArrayLike | Sequence[int] | None = None, cache_lens: ArrayLike | Sequence[int] | None = None, sinks: ArrayLike | None = None, dropout_p: float = 0.0, seed: int | ArrayLike = 0, dropout_offset: int = 0, dropout_first_query: int = 0, dropout_first_key: int = 0, dropout_first_head: int = 0, dropout_heads: int = 0, invariant: bool = False, variant: str | None = None, grad_lse: ArrayLike | None = None, gradients: Sequence[str] | Mapping[str, ArrayLike | None] | None = None, report: dict[str, Any] | None = None, layout: str = 'dense', detached: bool = False, context: Context | None = None) -> dict[str, Array]:
    """
    Gradients of a loss by the inputs of ring_attention(), gathered_attention() and
    head_parallel_attention(). Options are those of the forward pass.

    Args:
        communicator: The group, and this rank in it.
        plan: Positions of every rank, equal on all ranks.
        query: (B, Hq, S, Dk), S = plan.positions_of(rank): the rows of this rank, in the order of
            positions.
        key: (B, Hkv, S, Dk); Hq is a multiple of Hkv.
        value: (B, Hkv, S, Dv).
        out: Result of the forward pass.
        lse: lse of the forward pass.
        grad_out: Gradient of the loss by out, shape of out, last stride 1.
        score: The score x(i, j): "dot_product", scale q . k; "general", scale q . (W k) with W =
            score_weight; "cosine"; "gaussian", -scale / 2 |q - k|^2.
        score_weight: W of the score "general": (Dq, Dk), type of query.
        scale: Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.
        softcap: c > 0: a score x becomes c tanh(x / c). 0: off.
        bias: Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.
        alibi: Adds -slope(h) |i + off - j| with the standard slopes.
        alibi_slopes: Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).
        mask: bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.
        causal: Key j takes part for query i iff j <= i + off: "top_left", off 0; "bottom_right", off Sk
            - Sq; "offset", off given by offset or offsets.
        offset: off of causal, window and ALiBi: the position of query 0 among the keys.
        offsets: off of each batch entry: i32 (B).
        window: (left, right): key j takes part iff i + off - left <= j <= i + off + right; -1:
            unbounded.
        valid_lens: i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.
        cache_lens: i32 (B): rows that the caches key and value hold before the Sq rows of this call.
        sinks: f32 (Hq): a score of each head that joins the normaliser and has no value.
        dropout_p: Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        seed: Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.
        dropout_offset: Selects another dropout mask of the same seed, from 0 to 2^32 - 1.
        dropout_first_query: Of a part of a larger call, which keeps the weights that the larger one
            keeps: the number of query 0 there, modulo 2^32.
        dropout_first_key: Of a part of a larger call: the number of key 0 there, modulo 2^32.
        dropout_first_head: Of a part of a larger call: the number of query head 0 there, modulo 2^32;
            head h of batch entry b has the number b * dropout_heads + h.
        dropout_heads: Of a part of a larger call: the query heads of the larger call, at least Hq; 0:
            Hq.
        invariant: The same bits for a prompt at once, in chunks and token by token.
        variant: Run this variant, or fail; None: dispatch chooses.
        grad_lse: Gradient of the loss by lse; None: the loss does not depend on lse.
        gradients: Names of the gradients wanted, or a mapping of names to arrays that are written
            (None: a new array); None: those of the tensors that are positional arguments.
        report: Is filled when the call returns: bytes_sent by this rank, seconds, waiting_seconds.
        layout: Memory of a new 4-D result: "dense", or "heads_in_rows", (B, S, H, D).
        detached: Take torch tensors that require a gradient, and record none.
        context: Threads and scratch; None: the Context of the process, all cores.

    Returns:
        The gradients wanted by name: query, key, value, bias, and of all ranks together, on each,
        alibi_slopes (f32), sinks (f32). Every rank wants the same.

    Collective: every rank calls, with its own arrays and otherwise equal arguments. Where ranks
    disagree, or one rank's arguments are refused, every rank raises ValueError, and nothing is written.
    ConnectionError: a message failed, or did not come within the communicator's time_limit; use the
    communicator no more. The bits are those of any number of ranks.

    Raises:
        ValueError: an argument is wrong; the message names it.
        UnsupportedError: the call is legal, but not served by this build (a ValueError).
        MemoryError: no memory for scratch.
    """

def torch_attention(query: Any, key: Any, value: Any, attn_mask: Any | None, is_causal: bool, scale: float | None, enable_gqa: bool, with_lse: bool) -> Any | None:
    """
    PyTorch's scaled_dot_product_attention of plain tensors: out, or (out, lse); None where the call needs more
    than that.

    A part of attune.torch, which records gradients.
    """

class UserAttention:
    """The shared object of an attention; a part of attune.define()."""

    def __init__(self, file: str) -> None: ...

    def captures(self) -> list[dict[str, Any]]:
        """
        Captures: name, rank (0: a number), dtype (None: that of the scores), has_gradient.
        """

    def forward(self, query: ArrayLike, key: ArrayLike, value: ArrayLike, **options: Any) -> Array | Attention:
        """
        The forward pass: options of scaled_dot_product_attention(), and captures.
        """

    def backward(self, query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike, **options: Any) -> dict[str, Array]:
        """
        The gradients: options of scaled_dot_product_attention_backward(), and captures.
        """

    def ring_attention_backward(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike, **options: Any) -> dict[str, Array]:
        """
        The gradients over ranks: options of ring_attention_backward(), and captures.
        """

    def ring_attention(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, **options: Any) -> Array | Attention:
        """Over ranks: options of ring_attention(), and captures."""

    def gathered_attention(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, **options: Any) -> Array | Attention:
        """Over ranks: options of gathered_attention(), and captures."""

    def head_parallel_attention(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, **options: Any) -> Array | Attention:
        """Over ranks: options of head_parallel_attention(), and captures."""

    def sharded_decode(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike, **options: Any) -> Array | Attention:
        """Over ranks: options of sharded_decode(), and captures."""
