"""The precision in which MXNet trains and evaluates: float32, or bfloat16 where the CPU has it.

With bfloat16, MXNet's automatic mixed precision casts the inputs of convolutions and matrix
products, except those of a first convolution of few channels.  Parameters, and therefore pushes,
stay float32.  It changes MXNet for the whole process and cannot be undone, so a process has one
precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, List, Optional

from slsgd_mx.errors import ConfigError
from slsgd_mx.system.files import warn
from slsgd_mx.system.machine import cpu_field, cpu_flags

if TYPE_CHECKING:
    from slsgd_mx.system.mxnet import mx

FLAGS = {"avx512_bf16": "AVX512_BF16", "amx_bf16": "AMX"}  # as Linux names them -> in words
FLOAT32_CONVOLUTION = "Convolution_float32"  # our name in mx.nd and mx.sym, only with bfloat16
FEW_CHANNELS = 16  # the block in which oneDNN's kernels for bfloat16 take a convolution's channels
_used: List[str] = []  # the precision of this process, once it is decided


def obstacle(precision: str) -> Optional[str]:
    """Why this machine cannot compute with a precision; None if it can."""
    if precision == "bfloat16" and not cpu_flags() & set(FLAGS):
        return f"this CPU has no {' or '.join(FLAGS.values())}"
    return None


def check_precision(precision: str) -> None:
    """Raise a ConfigError if this machine cannot compute with a precision."""
    reason = obstacle(precision)
    if reason:
        raise ConfigError(
            f"precision='{precision}' is not possible here: {reason}; use --precision float32, or "
            "another machine"
        )


def no_gain(precision: str) -> Optional[str]:
    """Why a precision is probably slower than float32 on this machine; None if it is not.

    Measured: see docs/costs.md.
    """
    slow = cpu_field("vendor_id") == "GenuineIntel" and not cpu_flags() & {"amx_bf16"}
    if precision == "bfloat16" and slow and obstacle(precision) is None:
        return "on Intel CPUs without AMX it is slower than float32 (0.6 to 0.8 of its speed)"
    return None


def warn_of_no_gain(precision: str) -> None:
    """Tell the user once, before anything is computed, that a precision will not save time."""
    reason = no_gain(precision)
    if reason:
        warn(f"--precision {precision}: {reason}; see docs/costs.md")


def use_precision(precision: str) -> None:
    """Let this process compute with a precision; call it before a network is built."""
    check_precision(precision)
    if _used not in ([], [precision]):
        raise ConfigError(
            f"precision='{precision}' comes too late: this process computes in {_used[0]}, and a "
            "process has one precision; start another one"
        )
    if precision == "bfloat16" and not _used:
        _start_bfloat16()
    _used[:] = [precision]


def keep_first_in_float32(net: mx.gluon.Block) -> None:
    """Let a network's first convolution compute in float32 if this process uses bfloat16.

    Call it before the network is traced.  For the 3 channels of an image oneDNN 2.4 has no
    convolution in bfloat16, only a general product.  Its result is in the plain layout, for which
    the batch normalisation that follows has no fast kernel (docs/costs.md).  A first convolution
    of 16 or more channels computes in bfloat16.
    """
    first = next(_convolutions(net), None) if _used == ["bfloat16"] else None
    if first is not None and first.weight.shape[1] < FEW_CHANNELS:
        first._op_name = FLOAT32_CONVOLUTION


def _convolutions(block: mx.gluon.Block) -> Iterator[mx.gluon.Block]:
    """The convolutions of a network, in the order of their declaration."""
    if getattr(block, "_op_name", None) in ("Convolution", FLOAT32_CONVOLUTION):
        yield block
    for child in block._children.values():
        yield from _convolutions(child)


def _start_bfloat16() -> None:
    """Start automatic mixed precision, and keep a convolution whose inputs are cast to float32."""
    from slsgd_mx.system.mxnet import import_amp, mx

    amp = import_amp()
    for module in (mx.nd, mx.sym):
        for namespace in (module, module.op):
            setattr(namespace, FLOAT32_CONVOLUTION, module.Convolution)
    amp.init("bfloat16", fp32_ops=[*amp.list_fp32_ops(amp.amp.bfloat16), FLOAT32_CONVOLUTION])
