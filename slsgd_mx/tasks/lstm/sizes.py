"""Sizes of a run of the language model on text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Tuple

from slsgd_mx.validation import require, require_name, require_whole
from slsgd_mx.workloads import Sizes

DATA = ("wikitext2", "synthetic")
PARTITIONS = ("shuffled", "consecutive")
MOST_VALUES = 2**31 - 1  # of an MXNet array, such as the embedding
SYNTHETIC_TYPES = 20, 100_000  # the fewest and the most types of synthetic text
MOST_WIDTH = 2**14  # the state has 2**30 weights then


@dataclass(frozen=True)
class Lstm(Sizes):
    """The paper's second workload, a language model on text; the defaults are the paper's sizes.

    Parameters
    ----------
    data : str
        "wikitext2", or "synthetic" text, which is embedded.
    partition : str
        Batches of text are dealt out "shuffled" (the released code) or "consecutive".
    vocab_size : int
        Most frequent words kept; the others become ``<unk>``.  Paper: 33,278.
    bptt : int
        Tokens in a sequence of a minibatch.  Paper: 35.
    device_batches : int
        Minibatches that each device holds.  Paper: 32.
    loss_batches : int
        Batches on which the training loss is measured, at most ``n * device_batches``.
    test_batches : int
        Batches of test text.  Paper: 350.
    width : int
        Size of the embedding and of the state.  Paper: 200.

    Examples
    --------
    >>> from slsgd_mx import Lstm, RunConfig
    >>> RunConfig(sizes=Lstm(), gamma=20, batch_size=20).sizes.amount
    '33,278 types, 32 batches a device'
    """

    task: ClassVar[str] = "lstm"
    default_attack: ClassVar[str] = "label-permute"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "test_loss", "test_perplexity")
    panels: ClassVar[Tuple[str, ...]] = ("test_perplexity", "train_loss")
    unit: ClassVar[str] = "tokens"

    data: str = "wikitext2"
    partition: str = "shuffled"
    vocab_size: int = 33_278
    bptt: int = 35
    device_batches: int = 32  # batches on each device
    loss_batches: int = 3_200  # training batches on which the training loss is measured
    test_batches: int = 350
    width: int = 200  # of the embedding and the state

    def validate(self, n: int) -> None:
        require_name("data", self.data, DATA)
        require_name("partition", self.partition, PARTITIONS)
        lowest = dict(bptt=1, device_batches=1, loss_batches=1, test_batches=1)
        require_whole(self, vocab_size=3, **lowest)
        most = min(MOST_WIDTH, MOST_VALUES // self.vocab_size)
        require_whole(self, most=most, width=1)
        if self.data == "synthetic":
            least, most = SYNTHETIC_TYPES
            legal = f"{least} <= vocab_size <= {most} for synthetic text"
            require(least <= self.vocab_size <= most, "vocab_size", self.vocab_size, legal)
        most = n * self.device_batches
        legal = f"1 <= loss_batches <= n * device_batches = {most}"
        require(self.loss_batches <= most, "loss_batches", self.loss_batches, legal)

    def within(self, n: int, **changes: Any) -> Lstm:
        """Return changed sizes; ``loss_batches`` is reduced to n * device_batches if necessary."""
        batches = n * changes.get("device_batches", self.device_batches)
        return replace(self, **{"loss_batches": min(self.loss_batches, batches), **changes})

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Local iterations of one pass."""
        return float(self.device_batches)

    @property
    def amount(self) -> str:
        """The amount of data, in words."""
        return f"{self.vocab_size:,} types, {self.device_batches} batches a device"

    @property
    def evaluated(self) -> int:
        """Number of batches in one evaluation."""
        return self.loss_batches + self.test_batches

    @property
    def cost_key(self) -> Tuple:
        return (self.task, self.width, self.vocab_size, self.bptt)

    def sample(self, images: int) -> Lstm:
        """Return sizes of the same network with little synthetic text, to measure its speed."""
        few = {"device_batches": 3, "loss_batches": 3, "test_batches": 3}
        least, most = SYNTHETIC_TYPES
        types = min(max(least, self.vocab_size), most)
        return replace(self, data="synthetic", vocab_size=types, **few)

    @property
    def data_amount(self) -> Tuple[int, ...]:
        """What the digest of the data depends on."""
        return (self.vocab_size,)

    @property
    def slug(self) -> str:
        words = [self.task, self.data, f"v{self.vocab_size}", f"{self.device_batches}batches"]
        return "-".join([*words, *[self.partition] * (self.partition != "shuffled")])
