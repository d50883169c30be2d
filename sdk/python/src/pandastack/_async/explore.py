"""Best of several attempts: each runs in a copy of a sandbox, and the best copy is kept."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Union

from ..exceptions import NotFoundError, PandastackError
from . import flavour

if TYPE_CHECKING:
    from .._results import ExecResult
    from .copies import AsyncForkTree
    from .sandbox import AsyncSandbox

MAX_BRANCHES = 16

_TAIL = 4096
_FILES_MAX = 200
_AT_ONCE = 4
_MARKER = "/tmp/.pandastack-explore-marker"
_ROOTS = "/app /work /root /home"


class AsyncExploreError(PandastackError):
    """There is nothing to try, too much to try, or nothing worth keeping."""


@dataclass
class AsyncCandidate:
    """One attempt: a command, or a function that gets the copy."""

    label: str
    cmd: Optional[str] = None
    fn: Optional[Callable[[AsyncSandbox], Any]] = None
    timeout_s: float = 60.0
    env: Optional[Dict[str, str]] = None
    score: Optional[float] = None

    @staticmethod
    def shell(label: str, cmd: str, **options: Any) -> AsyncCandidate:
        return AsyncCandidate(label, cmd=cmd, **options)

    @staticmethod
    def call(label: str, fn: Callable[[AsyncSandbox], Any], **options: Any) -> AsyncCandidate:
        return AsyncCandidate(label, fn=fn, **options)


@dataclass
class AsyncBranchOutcome:
    """What one attempt did."""

    label: str
    sandbox_id: str
    ok: bool
    score: float
    exit_code: Optional[int]
    stdout_tail: str
    stderr_tail: str
    files_changed: List[str]
    duration_ms: int
    value: Any = None
    error: Optional[str] = None
    timed_out: bool = False
    _sandbox: Optional[AsyncSandbox] = None

    @property
    def sandbox(self) -> Optional[AsyncSandbox]:
        """The copy that it ran in."""
        return self._sandbox


@dataclass
class AsyncExploreResult:
    """All attempts, and the one that was kept."""

    winner: Optional[AsyncSandbox]
    winner_outcome: Optional[AsyncBranchOutcome]
    outcomes: List[AsyncBranchOutcome]
    tree_id: str
    reaped: List[str]
    reap_failures: Dict[str, str]
    errors: List[str]

    def best(self, n: int = 1) -> List[AsyncBranchOutcome]:
        """The outcomes with the highest scores."""
        return sorted(self.outcomes, key=lambda outcome: outcome.score, reverse=True)[:n]

    def table(self) -> str:
        """All outcomes as a table of text, best first."""
        rows = [("label", "ok", "score", "exit", "ms", "files")]
        for one in self.best(len(self.outcomes)):
            code = "-" if one.exit_code is None else str(one.exit_code)
            kept = "*" if one is self.winner_outcome else ""
            rows.append(
                (
                    one.label + kept,
                    "yes" if one.ok else "no",
                    f"{one.score:g}",
                    code,
                    str(one.duration_ms),
                    str(len(one.files_changed)),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in rows
        )


async def explore(
    sandbox: AsyncSandbox,
    candidates: Sequence[Union[AsyncCandidate, str]],
    *,
    score_fn: Optional[Callable[[AsyncSandbox, AsyncBranchOutcome], Any]] = None,
    select: Union[str, Callable[[List[AsyncBranchOutcome]], AsyncBranchOutcome]] = "max",
    require_success: bool = True,
    max_concurrency: Optional[int] = None,
    cleanup_losers: bool = True,
    promote_winner: bool = True,
    capture_files: Union[bool, str] = True,
    ttl_seconds: int = 600,
    on_outcome: Optional[Callable[[AsyncBranchOutcome], None]] = None,
) -> AsyncExploreResult:
    """Try each candidate in a copy of the sandbox, and keep the best copy.

        result = await explore(sandbox, ["make fast", "make small"], score_fn=measure)
        print(result.table())

    Args:
        sandbox: What is copied. It keeps running.
        candidates: At most 16 `Candidate` objects, or shell commands.
        score_fn: Gets a copy and its outcome, and returns its score. By default 1 for success.
        select: `max`, `min`, or a function that picks one of the outcomes.
        require_success: Never keep a copy whose attempt failed.
        max_concurrency: How many run at once; 4 by default.
        cleanup_losers: Delete the other copies.
        promote_winner: Make the kept copy independent of the tree.
        capture_files: List the files that each attempt changed; a text names the directories.
        ttl_seconds: Copies that are left behind delete themselves after this time.
        on_outcome: Is called after each attempt.

    Raises:
        ExploreError: There are no or too many candidates, or none can be kept.
    """
    tries = [one if isinstance(one, AsyncCandidate) else _from_text(one) for one in candidates]
    if not 1 <= len(tries) <= MAX_BRANCHES:
        raise AsyncExploreError(
            f"explore needs 1 to {MAX_BRANCHES} candidates, not {len(tries)}: try them in rounds"
        )
    tree = await sandbox.fork_tree(
        len(tries), {"explore": "1", "explore_ttl": str(int(ttl_seconds))}
    )
    warnings: List[str] = []
    if len(tree) < len(tries):
        warnings.append(f"only {len(tree)} of {len(tries)} copies could be made")

    async def one(index: int) -> AsyncBranchOutcome:
        outcome = await _attempt(tree[index], tries[index], capture_files)
        await _score(outcome, tree[index], tries[index], score_fn)
        if on_outcome is not None:
            on_outcome(outcome)
        return outcome

    try:
        outcomes = await flavour.in_order(one, range(len(tree)), max_concurrency or _AT_ONCE)
        chosen = _choose(outcomes, select, require_success)
        if chosen is None:
            raise AsyncExploreError("no candidate succeeded")
    except BaseException:
        if cleanup_losers:
            await _reap(tree, set(), {})
        raise

    reaped: List[str] = []
    failures: Dict[str, str] = {}
    winner = next(branch for branch in tree if branch.id == chosen.sandbox_id)
    if promote_winner:
        answer = await winner.promote(
            cleanup_siblings=cleanup_losers, tree_id=_tree_id(tree) or None
        )
        reaped.extend(answer.get("deleted") or [])
    if cleanup_losers:
        reaped.extend(await _reap(tree, {winner.id, *reaped}, failures))
    return AsyncExploreResult(winner, chosen, outcomes, _tree_id(tree), reaped, failures, warnings)


def _from_text(cmd: str) -> AsyncCandidate:
    return AsyncCandidate.shell(cmd, cmd)


def _tree_id(tree: AsyncForkTree[Any]) -> str:
    for branch in tree:
        found = branch.metadata.get("fork_tree_id") or branch.metadata.get("tree_id")
        if found:
            return str(found)
    return tree.tree_id


async def _attempt(
    sandbox: AsyncSandbox,
    candidate: AsyncCandidate,
    capture_files: Union[bool, str],
) -> AsyncBranchOutcome:
    started = time.monotonic()
    outcome = AsyncBranchOutcome(
        candidate.label, sandbox.id, False, 0.0, None, "", "", [], 0, _sandbox=sandbox
    )
    # A failure belongs to this attempt alone, so it must not end the others.
    try:
        if capture_files:
            await sandbox.exec(f"touch {_MARKER}", timeout_seconds=10)
        if candidate.fn is not None:
            outcome.value = await flavour.result_of(candidate.fn(sandbox))
            outcome.ok = True
        elif candidate.cmd is not None:
            result = await sandbox.exec(
                candidate.cmd, timeout_seconds=candidate.timeout_s, env=candidate.env
            )
            _take(outcome, result)
        else:
            outcome.error = "the candidate has neither cmd nor fn"
        if capture_files and outcome.ok:
            outcome.files_changed = await _changed_files(sandbox, capture_files)
    except Exception as error:
        outcome.ok = False
        outcome.error = str(error)
        text = outcome.error.lower()
        outcome.timed_out = "timeout" in text or "timed out" in text
    outcome.duration_ms = int((time.monotonic() - started) * 1000)
    return outcome


def _take(outcome: AsyncBranchOutcome, result: ExecResult) -> None:
    outcome.exit_code = result.exit_code
    outcome.stdout_tail = result.stdout[-_TAIL:]
    outcome.stderr_tail = result.stderr[-_TAIL:]
    outcome.ok = result.exit_code == 0


async def _changed_files(sandbox: AsyncSandbox, capture: Union[bool, str]) -> List[str]:
    roots = shlex.quote(capture) if isinstance(capture, str) else _ROOTS
    found = await sandbox.exec(
        f"find {roots} -type f -newer {_MARKER} 2>/dev/null | head -n {_FILES_MAX}",
        timeout_seconds=10,
    )
    return [line for line in found.stdout.splitlines() if line]


async def _score(
    outcome: AsyncBranchOutcome,
    sandbox: AsyncSandbox,
    candidate: AsyncCandidate,
    score_fn: Optional[Callable[[AsyncSandbox, AsyncBranchOutcome], Any]],
) -> None:
    if candidate.score is not None:
        outcome.score = float(candidate.score)
    elif score_fn is None:
        outcome.score = 1.0 if outcome.ok else 0.0
    else:
        try:
            outcome.score = float(await flavour.result_of(score_fn(sandbox, outcome)))
        except Exception as error:
            outcome.error = outcome.error or f"score_fn failed: {error}"


def _choose(
    outcomes: List[AsyncBranchOutcome],
    select: Union[str, Callable[[List[AsyncBranchOutcome]], AsyncBranchOutcome]],
    require_success: bool,
) -> Optional[AsyncBranchOutcome]:
    fit = [outcome for outcome in outcomes if outcome.ok or not require_success]
    if not fit:
        return None
    if callable(select):
        return select(fit)
    if select not in {"max", "min"}:
        raise ValueError(f"select must be 'max', 'min' or a function, not {select!r}")
    pick = max if select == "max" else min
    return pick(fit, key=lambda outcome: outcome.score)


async def _reap(
    tree: AsyncForkTree[Any],
    kept: set[str],
    failures: Dict[str, str],
) -> List[str]:
    """Delete the copies that are left."""
    gone: List[str] = []
    for branch in tree:
        if branch.id in kept:
            continue
        try:
            await branch.kill()
            gone.append(branch.id)
        except NotFoundError:
            gone.append(branch.id)
        except PandastackError as error:
            failures[branch.id] = str(error)
    return gone
