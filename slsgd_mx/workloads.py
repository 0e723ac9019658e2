"""Workloads and networks by name: what a run can train, and how a plug-in adds its own.

A workload has sizes, which are part of a run's identity and need no MXNet, and a task
(``slsgd_mx.core.task.Task``), which is built from a configuration when it is trained.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import (
    Any,
    Callable,
    ClassVar,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    Type,
    Union,
)

from slsgd_mx.errors import ConfigError
from slsgd_mx.frozen import FROZEN
from slsgd_mx.plugins import Source
from slsgd_mx.registry import Choice, Parameter, Registry
from slsgd_mx.validation import require_name

Named = Union[str, Callable[..., Any]]  # "module:name", imported on use, or the function itself

OWN = "own"  # the data or the partition of a workload that does not name them

# The preset of a workload that has none of its own, and the base of those it has.
SMALL = dict(n=20, k=10, batch_size=10, epochs=40, alpha_decay_epoch=20, eval_every=2)


@dataclass(frozen=True)
class Sizes:
    """How large a run of a workload is, and on which data: frozen fields, all with defaults.

    Subclasses add fields; numbers, texts and tuples are possible.  What all workloads have is
    declared in class variables: ``default_attack``, ``metrics`` (the names that ``Task.evaluate``
    returns), ``unit`` (what throughput is counted in), ``data``, ``partition``, ``poisons_inputs``
    (whether attacks may change inputs) and ``has_target`` (whether the task has a ``target``).

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from slsgd_mx import Sizes
    >>> @dataclass(frozen=True)
    ... class Points(Sizes):
    ...     dimension: int = 3
    >>> Points(dimension=2).validate(n=10)
    >>> Points(dimension=0.5).validate(n=10)
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: dimension=0.5 must be a whole number
    """

    task: ClassVar[str] = ""  # the name under which the workload is registered
    default_attack: ClassVar[str] = "negation"
    metrics: ClassVar[Tuple[str, ...]] = ("loss",)
    unit: ClassVar[str] = "samples"  # what throughput is counted in
    data: ClassVar[str] = OWN  # "synthetic" if it is made up; titles of pictures say so
    partition: ClassVar[str] = OWN
    poisons_inputs: ClassVar[bool] = False  # whether attacks may change inputs, not only labels
    has_network: ClassVar[bool] = True  # of MXNet, whose precision can be chosen
    has_target: ClassVar[bool] = False  # whether the task says what attackers may be after

    def validate(self, n: int) -> None:
        """Raise a ConfigError if a size is illegal, or cannot be divided among n devices."""
        for each in fields(self):
            value = getattr(self, each.name)
            if not _fits(value, each.default):
                legal = {bool: "True or False", int: "a whole number", float: "a number"}
                legal[tuple] = f"a tuple such as {each.default!r}" if each.default else "a tuple"
                needs = legal.get(type(each.default), "a text")
                raise ConfigError(f"{each.name}={value!r} must be {needs}")

    def within(self, n: int, **changes: Any) -> Sizes:
        """Changed sizes, made consistent with each other and with n devices."""
        return dataclasses.replace(self, **changes)

    def sources(self) -> List[Optional[Source]]:
        """The plug-ins that the workload and what it uses come from."""
        return [WORKLOADS.sources.get(self.task)]

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Approximate local iterations of one pass, for forecasts."""
        return 1.0

    def sample(self, images: int) -> Sizes:
        """The sizes of a short run with the same network, to measure its speed."""
        return self

    @property
    def attack_metrics(self) -> Tuple[str, ...]:
        """Further metrics of runs under an attack that changes test inputs."""
        return ()

    @property
    def title(self) -> str:
        """The workload in titles of pictures."""
        return self.task

    @property
    def panels(self) -> Tuple[str, ...]:
        """The metrics that pictures show."""
        return self.metrics[:2]

    @property
    def cost_key(self) -> Tuple:
        """Equal for sizes whose steps cost the same."""
        return (self.task, *dataclasses.astuple(self))

    @property
    def amount(self) -> str:
        """The amount of data, in words."""
        return ", ".join(f"{name}={value}" for name, value in dataclasses.asdict(self).items())

    @property
    def evaluated(self) -> int:
        """Number of samples or batches in one evaluation."""
        return 1

    @property
    def slug(self) -> str:
        """The sizes in a folder's name: the workload, and what differs from the defaults."""
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        words = [f"{f.name}{getattr(self, f.name)}" for f in changed]
        return "-".join(in_a_name(word) for word in [self.task, *words])


def _fits(value: Any, default: Any) -> bool:
    """Whether a size, or an item of one, may replace a default.

    >>> _fits((64, 32, 16), (8, 8)), _fits((0.5,), (8, 8)), _fits("64,32", (8, 8)), _fits(1, 0.5)
    (True, False, False, True)
    """
    kind = type(default)
    if kind is float:
        return type(value) is int or (type(value) is float and math.isfinite(value))
    if kind is tuple:
        return type(value) is tuple and all(
            not default or any(_fits(item, each) for each in default) for item in value
        )
    return type(value) is kind or kind not in (bool, int, str)


def in_a_name(text: str) -> str:
    """A text as a part of a folder's name.

    >>> in_a_name("dirichlet:concentration=0.3")
    'dirichlet-concentration-0.3'
    """
    return text.translate(str.maketrans(":=,/ ", "-----"))


@dataclass(frozen=True)
class Workload:
    """A workload: its sizes, its task, and its presets as changes of ``RunConfig`` and sizes."""

    sizes: Type[Sizes]
    task: Named  # task(config, data_dir) -> slsgd_mx.core.task.Task
    summary: str = ""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """A network for images: ``build(classes, **parameters)`` returns a Gluon HybridBlock."""

    build: Named
    summary: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    legal: Optional[Callable[[Tuple[int, ...]], Optional[str]]] = None  # of one image's shape


WORKLOADS: Registry[Workload] = Registry("task", {})  # tasks/sizes.py lists those of the package
NETWORKS: Registry[Network] = Registry("network", {})  # tasks/images/sizes.py, likewise


def register_task(
    name: str,
    task: Optional[Callable[..., Any]] = None,
    *,
    sizes: Union[None, Mapping[str, Any], Type[Sizes]] = None,
    presets: Optional[Mapping[str, Mapping[str, Any]]] = None,
    **attributes: Any,
) -> Callable:
    """Add a workload under a new name: a decorator of its ``Task``, or a call with it.

    Parameters
    ----------
    name : str
        What follows ``slsgd-mx train``; it must be new.
    task : subclass of Task, or function
        Called as ``task(config, data_dir)`` in every process that trains.
    sizes : mapping of names to defaults, or subclass of Sizes
        What a user may change on the command line, and what is part of a run's identity.
    presets : mapping, optional
        Names to changes of ``RunConfig`` and the sizes; the first is the default.  A workload
        without presets has one, "small".
    **attributes
        Of the sizes: ``metrics`` (the names that ``evaluate`` returns), ``unit``,
        ``default_attack``, ``data``, ``partition``, ``poisons_inputs``, ``has_target`` (True for a
        task that sets ``target``: attacks such as worst-case need it), and ``has_network`` (False
        for a workload without a Gluon network: ``--precision`` is then refused).

    Raises
    ------
    ConfigError
        If the name is taken, an attribute is unknown, or a size has the name of a symbol.

    Examples
    --------
    docs/extending.md has a complete workload; here is the least that one needs.

    >>> import numpy as np
    >>> from slsgd_mx import Task, preset, register_task
    >>> @register_task("example-points", sizes={"dimension": 3}, metrics=("distance",))
    ... class Points(Task):
    ...     def __init__(self, config, data_dir=None):
    ...         self.values = {"x": np.zeros(config.sizes.dimension)}
    ...     def initialize(self, seed):
    ...         self.values["x"][...] = 1
    ...     def train(self, device, steps, gamma, seed, poison=None):
    ...         self.values["x"] -= gamma * (self.values["x"] - device)
    ...     def evaluate(self):
    ...         return {"distance": float(np.linalg.norm(self.values["x"]))}
    >>> preset("example-points", "small", dimension=2).sizes.dimension
    2
    >>> WORKLOADS.remove("example-points")  # so that the example leaves nothing behind
    """

    def register(made: Callable[..., Any]) -> Callable[..., Any]:
        summary = ((made.__doc__ or "").strip().splitlines() or [""])[0]
        own = {key: {**SMALL, **values} for key, values in (presets or {"small": {}}).items()}
        WORKLOADS.register(
            name, Workload(_sizes_from(name, sizes, attributes), made, summary, own), made
        )
        return made

    return register if task is None else register(task)


def _sizes_from(
    name: str, sizes: Union[None, Mapping[str, Any], Type[Sizes]], attributes: Dict[str, Any]
) -> Type[Sizes]:
    known = ("metrics", "unit", "default_attack", "data", "partition", "panels", "poisons_inputs")
    known += ("has_network", "has_target")
    for attribute in attributes:
        require_name("attribute of the sizes", attribute, known)
    namespace = {**attributes, "task": name}
    _check_metrics(name, attributes.get("metrics", getattr(sizes, "metrics", ("loss",))))
    if isinstance(sizes, type):
        _check_names([each.name for each in fields(sizes)], {*FROZEN})
        _check_defaults(name, sizes)
        return type(sizes.__name__, (sizes,), namespace)
    used = set(dir(Sizes)) - set(Sizes.__annotations__)  # a class variable may become a field
    _check_names(sizes or (), {*FROZEN, *used, *attributes, "task", "metrics"})
    for key, value in (sizes or {}).items():
        if not isinstance(value, (bool, int, float, str, tuple)):
            raise ConfigError(
                f"task {name!r}, size {key!r}: {value!r} is not a default, use a number, a text or "
                "a tuple"
            )
    members = [(key, type(value), field(default=value)) for key, value in (sizes or {}).items()]
    return dataclasses.make_dataclass(
        "Sizes", members, bases=(Sizes,), namespace=namespace, frozen=True
    )


def _check_metrics(task: str, metrics: object) -> None:
    """Raise a ConfigError unless these are names; those of a property depend on the sizes."""
    listed = isinstance(metrics, (tuple, list)) and all(isinstance(each, str) for each in metrics)
    if not (listed and metrics) and not isinstance(metrics, property):
        raise ConfigError(
            f"task {task!r}: metrics={metrics!r} must be a tuple of names, such as ('loss',)"
        )


def _check_defaults(task: str, sizes: Type[Sizes]) -> None:
    """Raise a ConfigError if a field has no default."""
    for each in fields(sizes):
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise ConfigError(f"task {task!r}, size {each.name!r}: it needs a default")


def _check_names(names: Iterable[str], taken: Set[str]) -> None:
    """Raise a ConfigError if sizes have names that a configuration or ``Sizes`` itself uses."""
    clash = sorted(taken.intersection(names))
    if clash:
        raise ConfigError(
            f"sizes {', '.join(clash)} cannot be fields of a workload's sizes: choose other names"
        )


def register_network(
    name: str, build: Optional[Callable[..., Any]] = None, **attributes: Any
) -> Callable:
    """Add a network under a new name: a decorator of ``build(classes, **parameters)``, or a call.

    Parameters
    ----------
    name : str
        What ``--network`` takes; it must be new.
    build : callable, optional
        Returns a Gluon HybridBlock from images to ``classes`` scores.
    **attributes
        ``parameters`` (see ``slsgd_mx.registry``), ``legal`` (of an image's shape: None, or what
        the network needs, in words) and ``summary`` (default: the first line of the docstring).

    Raises
    ------
    ConfigError
        If the name is taken or is not a name.

    Examples
    --------
    >>> from slsgd_mx import preset, register_network
    >>> @register_network("example-linear")
    ... def linear(classes):
    ...     from slsgd_mx.system.mxnet import mx
    ...
    ...     return mx.gluon.nn.Dense(classes)
    >>> preset("images", "smoke", network="example-linear").sizes.network
    'example-linear'
    >>> NETWORKS.remove("example-linear")  # so that the example leaves nothing behind
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        attributes.setdefault("summary", ((function.__doc__ or "").strip().splitlines() or [""])[0])
        NETWORKS.register(name, Network(function, **attributes), function)
        return function

    return register if build is None else register(build)


def find_network(text: str) -> Choice[Network]:
    """The network that a text names, with its parameters; a ConfigError if there is none."""
    return NETWORKS.choose(text)


def find(named: Named) -> Callable[..., Any]:
    """The function or class of a registry's entry, imported if it is given by its name."""
    if not isinstance(named, str):
        return named
    module, _, name = named.partition(":")
    return getattr(import_module(module), name)
