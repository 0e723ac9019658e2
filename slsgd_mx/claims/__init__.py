"""Whether the paper's claims hold on the runs of a folder; no MXNet.

A rule is not adjusted to a result.  A check compares an estimate with a limit:
"at least L" holds if mean - margin >= L, does not hold if mean + margin < L, and is not decided in
between ("at most" likewise).  The mean is over values paired within a seed; the margin is
``t_{0.975, r-1} sd / sqrt(r)`` over r >= 2 repeats, and fixed for a single one.  Where runs are
missing, a check uses the seeds whose runs are all finished.  A claim does not hold if one of its
checks does not; it is not decided if that is the verdict of a check, or if runs are missing;
otherwise the claim holds.  A check without any value, because its runs are missing, is not
computed, and so is a claim of which that is true of every check.

final
    The mean of a metric over the last quarter of the evaluations, epoch > 3/4 T.
nothing learned
    Test accuracy 1/10 for the CNN; for the LSTM, which is judged on the test loss (the log of the
    perplexity), the test loss of FedAvg without attack at its first evaluation.
ideal
    FedAvg (alpha=1, b=0, q=0), with the same partition, gamma and seed.
progress
    (final - nothing) / (ideal final - nothing), where "nothing" is "nothing learned"; 0 for a run
    that diverged or ends below it.  Not decided where the ideal learned less than 0.05 of
    accuracy or nats.
slow-down
    The mean training loss over all evaluations, minus that of another run.  A run that diverged has
    the loss of guessing, ln(10), throughout; two runs that diverged are not compared.
epochs to a loss
    The first evaluated epoch with a training loss as low; T + eval_every, a lower bound, for a run
    that never reached it or diverged.  Two such runs are not compared.
floor
    Of the theory's cases: the mean of F(x_t) - F(x_*) over the last half of the epochs.  C10 to C12
    are judged on the tables that ``slsgd-mx theory`` writes to RUNS/theory, over the seeds that the
    tables compared have in common.
"""

from slsgd_mx.claims.catalogue import CLAIMS, THEORY, Claim, judge_all, judge_theory
from slsgd_mx.claims.checks import ABSENT, FAILS, HOLDS, OPEN, Check, Verdict, decide
from slsgd_mx.claims.evidence import Evidence
from slsgd_mx.claims.report import from_json, to_json, to_markdown, to_text

__all__ = [
    "ABSENT", "CLAIMS", "FAILS", "HOLDS", "OPEN", "THEORY", "Check", "Claim", "Evidence", "Verdict",
    "decide", "from_json", "judge_all", "judge_theory", "to_json", "to_markdown", "to_text",
]  # fmt: skip
