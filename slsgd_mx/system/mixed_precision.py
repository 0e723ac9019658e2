"""MXNet's automatic mixed precision with bfloat16: what it casts here, and what it cannot do."""

from __future__ import annotations

from types import ModuleType
from typing import Callable, Iterator

from slsgd_mx.errors import ConfigError
from slsgd_mx.system.mxnet import import_amp, mx

FLOAT32_CONVOLUTION = "Convolution_float32"  # our name for it in mx.nd and mx.sym
FEW_CHANNELS = 16  # the block in which oneDNN's kernels for bfloat16 take a convolution's channels
PRELU = ("LeakyReLU", "act_type", ["prelu"])  # MXNet's list leaves out that its slope is float32


def start() -> None:
    """Start it for this process, with a convolution whose inputs are cast to float32."""
    amp = import_amp()
    for module in (mx.nd, mx.sym):
        _define(module, FLOAT32_CONVOLUTION, module.Convolution)
    dtype = amp.amp.bfloat16
    amp.init(
        "bfloat16",
        conditional_fp32_ops=[*amp.list_conditional_fp32_ops(dtype), PRELU],
        fp32_ops=[*amp.list_fp32_ops(dtype), FLOAT32_CONVOLUTION],
    )
    for module in (mx.nd, mx.sym):
        _define(module, "Deconvolution", _refuse_transposed)


def _define(module: ModuleType, name: str, function: Callable) -> None:
    """Make an operator known under a name, as MXNet's own are."""
    for namespace in (module, module.op):
        setattr(namespace, name, function)


def _refuse_transposed(*_: object, **__: object) -> None:
    """Instead of a transposed convolution, which crashes where its inputs were bfloat16."""
    raise ConfigError(
        "precision='bfloat16' is not possible with transposed convolutions, because MXNet 1.9.1 "
        "crashes: use --precision float32"
    )


def keep_first_in_float32(net: mx.gluon.Block) -> None:
    """Let the convolution that a network declares first compute in float32.

    For the 3 channels of an image oneDNN 2.4 has no convolution in bfloat16, only a general
    product.  Its result is in the plain layout, for which the batch normalisation that follows has
    no fast kernel (docs/costs.md).  From 16 channels on, it computes in bfloat16.
    """
    first = next(_convolutions(net), None)
    if first is not None and _channels(first) < FEW_CHANNELS:
        first._op_name = FLOAT32_CONVOLUTION


def _convolutions(block: mx.gluon.Block) -> Iterator[mx.gluon.Block]:
    """The convolutions of a network, in the order of their declaration."""
    if getattr(block, "_op_name", None) in ("Convolution", FLOAT32_CONVOLUTION):
        yield block
    for child in block._children.values():
        yield from _convolutions(child)


def _channels(convolution: mx.gluon.Block) -> int:
    """The channels that a convolution takes, in all its groups."""
    return convolution.weight.shape[1] * convolution._kwargs["num_group"]


def forget_trace(block: mx.gluon.Block) -> None:
    """Let a block that was hybridized and has computed be traced again."""
    if isinstance(block, mx.gluon.HybridBlock):
        block._clear_cached_op()
