"""The precision in which MXNet trains and evaluates: float32, or bfloat16 where the CPU has it.

With bfloat16, MXNet's automatic mixed precision casts the inputs of convolutions and matrix
products, except those of a first convolution of few channels.  Parameters, and therefore pushes,
stay float32.  It changes MXNet for the whole process and cannot be undone, so a process has one
precision.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, List, Optional

from slsgd_mx.errors import ConfigError
from slsgd_mx.system.files import warn
from slsgd_mx.system.machine import cpu_field, cpu_flags, instructions

if TYPE_CHECKING:
    from slsgd_mx.system.mxnet import mx

FLAGS = {"avx512_bf16": "AVX512_BF16", "amx_bf16": "AMX"}  # as Linux names them -> in words
_used: List[str] = []  # the precision of this process, once it is decided


def obstacle(precision: str) -> Optional[str]:
    """Why this machine cannot compute with a precision; None if it can."""
    if precision == "bfloat16" and not cpu_flags() & set(FLAGS):
        return f"this CPU has no {' or '.join(FLAGS.values())}"
    if precision == "bfloat16" and instructions() != "AVX-512":
        return f"DNNL_MAX_CPU_ISA={os.environ['DNNL_MAX_CPU_ISA']} excludes it"
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
        return "on Intel CPUs without AMX it is slower than float32"
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
    if not _used:
        _refuse_others()
        if precision == "bfloat16":
            from slsgd_mx.system import mixed_precision

            mixed_precision.start()
    _used[:] = [precision]


def _refuse_others() -> None:
    """Raise a ConfigError if somebody else has started MXNet's automatic mixed precision."""
    amp = sys.modules.get("mxnet.contrib.amp.amp")
    if amp is not None and amp._amp_initialized:
        raise ConfigError(
            "this process has called MXNet's amp.init, which cannot be undone: start another one, "
            "and ask for --precision bfloat16 instead"
        )


def prepare(net: mx.gluon.Block) -> None:
    """Prepare a network, before it trains, for the precision of this process."""
    if _used == ["bfloat16"]:
        from slsgd_mx.system.mixed_precision import forget_trace, keep_first_in_float32

        keep_first_in_float32(net)
        net.apply(forget_trace)
