/** Tries several ways in forks of a sandbox and keeps the best one. */

import { ExploreError } from "./errors.js";
import type { Sandbox } from "./sandbox.js";

/** One way to try: a shell command, or a function that works on the fork. */
export interface Candidate {
  label: string;
  cmd?: string;
  fn?: (sandbox: Sandbox) => Promise<unknown> | unknown;
  /** Time limit of the command in seconds; 60 by default. */
  timeoutS?: number;
  env?: Record<string, string>;
  /** A fixed score. */
  score?: number;
}

/** What became of one candidate. */
export interface BranchOutcome {
  label: string;
  sandboxId: string;
  ok: boolean;
  score: number;
  exitCode: number | null;
  /** The last 4096 characters. */
  stdoutTail: string;
  stderrTail: string;
  filesChanged: string[];
  durationMs: number;
  /** What `fn` returned. */
  value?: unknown;
  error: string | null;
  timedOut: boolean;
  readonly sandbox?: Sandbox;
}

/** Options of an exploration. */
export interface ExploreOptions {
  /** Scores a branch. By default 1 for success and 0 for failure. */
  scoreFn?: (sandbox: Sandbox, outcome: BranchOutcome) => number | Promise<number>;
  /** Which score wins: the largest (default), the smallest, or a choice of your own. */
  select?: "max" | "min" | ((outcomes: BranchOutcome[]) => BranchOutcome);
  /** Only branches that succeeded can win. True by default. */
  requireSuccess?: boolean;
  /** Branches that work at once; 4 by default. */
  maxConcurrency?: number;
  /** Deletes the other branches. True by default. */
  cleanupLosers?: boolean;
  /** Keeps the winner as a sandbox of its own. True by default. */
  promoteWinner?: boolean;
  /** Lists changed files, or names the directories to look in. True by default. */
  captureFiles?: boolean | string;
  /** Idle limit of the branches; 600 s by default. */
  ttlSeconds?: number;
  onOutcome?: (outcome: BranchOutcome) => void;
}

/** The result of an exploration. */
export interface ExploreResult {
  winner: Sandbox | null;
  winnerOutcome: BranchOutcome | null;
  /** All outcomes, the best first. */
  outcomes: BranchOutcome[];
  treeId: string;
  reaped: string[];
  reapFailures: Record<string, string>;
  errors: string[];
}

const BRANCHES_MAX = 16;
const TAIL_CHARS = 4096;
const MARKER = "/tmp/.pandastack-explore-marker";
const WATCHED_ROOTS = "/app /work /root /home";
const LISTED_FILES_MAX = 200;

/** Runs an exploration. */
export async function explore(
  parent: Sandbox,
  given: readonly (Candidate | string)[],
  options: ExploreOptions,
): Promise<ExploreResult> {
  const candidates = given.map((one) => (typeof one === "string" ? { label: one, cmd: one } : one));
  refuseBadCount(candidates.length);
  const ttl = Math.floor(options.ttlSeconds ?? 600);
  const tree = await parent.forkTree({
    count: candidates.length,
    metadata: { explore: "1", explore_ttl: String(ttl) },
  });
  const errors: string[] = [];
  if (tree.length < candidates.length) {
    errors.push(
      `asked for ${candidates.length} branches and got ${tree.length}; went on with these`,
    );
  }
  const pairs = tree.branches.map((sandbox, at) => ({
    sandbox,
    candidate: candidates[at] as Candidate,
  }));
  const outcomes = await runAll(pairs, options);
  const winner = chosen(outcomes, options);
  const result: ExploreResult = {
    winner: (options.promoteWinner ?? true) ? (winner?.sandbox ?? null) : null,
    winnerOutcome: winner ?? null,
    outcomes: ranked(outcomes, options.select),
    treeId: tree.id,
    reaped: [],
    reapFailures: {},
    errors,
  };
  await keepWinner(result, tree.branches, options);
  if (winner === undefined) {
    const list = outcomes.map((one) => `${one.label}: ${one.error ?? `exit code ${one.exitCode}`}`);
    throw new ExploreError(`no branch succeeded of ${outcomes.length}: ${list.join("; ")}`);
  }
  return result;
}

function refuseBadCount(count: number): void {
  if (count === 0) throw new ExploreError("explore needs at least one candidate");
  if (count > BRANCHES_MAX) {
    throw new ExploreError(
      `${count} candidates are more than the ${BRANCHES_MAX} branches of a tree; use several rounds`,
    );
  }
}

async function runAll(
  pairs: readonly { sandbox: Sandbox; candidate: Candidate }[],
  options: ExploreOptions,
): Promise<BranchOutcome[]> {
  const outcomes: BranchOutcome[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let pair = pairs[next++]; pair !== undefined; pair = pairs[next++]) {
      const outcome = await runBranch(pair.sandbox, pair.candidate, options.captureFiles ?? true);
      await setScore(outcome, pair.sandbox, pair.candidate, options);
      options.onOutcome?.(outcome);
      outcomes.push(outcome);
    }
  };
  const workers = Math.min(options.maxConcurrency ?? 4, pairs.length);
  await Promise.all(Array.from({ length: workers }, work));
  return outcomes;
}

async function runBranch(
  sandbox: Sandbox,
  candidate: Candidate,
  captureFiles: boolean | string,
): Promise<BranchOutcome> {
  const started = Date.now();
  const outcome: BranchOutcome = {
    label: candidate.label,
    sandboxId: sandbox.id,
    ok: false,
    score: 0,
    exitCode: null,
    stdoutTail: "",
    stderrTail: "",
    filesChanged: [],
    durationMs: 0,
    error: null,
    timedOut: false,
    sandbox,
  };
  if (captureFiles) {
    await sandbox.exec(`touch ${MARKER}`, { timeoutSeconds: 10 }).catch(() => undefined);
  }
  try {
    await runCandidate(outcome, sandbox, candidate);
  } catch (error) {
    outcome.error = textOf(error);
    outcome.timedOut = /timeout|timed out/i.test(outcome.error);
  }
  if (captureFiles && outcome.ok) {
    outcome.filesChanged = await changedFiles(sandbox, captureFiles).catch(() => []);
  }
  outcome.durationMs = Date.now() - started;
  return outcome;
}

async function runCandidate(
  outcome: BranchOutcome,
  sandbox: Sandbox,
  candidate: Candidate,
): Promise<void> {
  if (candidate.fn !== undefined) {
    outcome.value = await candidate.fn(sandbox);
    outcome.ok = true;
    return;
  }
  if (!candidate.cmd) {
    outcome.error = "the candidate has neither cmd nor fn";
    return;
  }
  const timeoutSeconds = Math.floor(candidate.timeoutS ?? 60);
  const result = await sandbox.exec(candidate.cmd, { timeoutSeconds, env: candidate.env });
  outcome.exitCode = result.exitCode;
  outcome.stdoutTail = result.stdout.slice(-TAIL_CHARS);
  outcome.stderrTail = result.stderr.slice(-TAIL_CHARS);
  outcome.ok = result.exitCode === 0;
}

async function changedFiles(sandbox: Sandbox, roots: boolean | string): Promise<string[]> {
  const where = typeof roots === "string" ? roots : WATCHED_ROOTS;
  const find = `find ${where} -type f -newer ${MARKER} 2>/dev/null | head -n ${LISTED_FILES_MAX}`;
  const { stdout } = await sandbox.exec(find, { timeoutSeconds: 10 });
  return stdout
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

async function setScore(
  outcome: BranchOutcome,
  sandbox: Sandbox,
  candidate: Candidate,
  options: ExploreOptions,
): Promise<void> {
  if (candidate.score !== undefined) outcome.score = candidate.score;
  else if (options.scoreFn === undefined) outcome.score = outcome.ok ? 1 : 0;
  else {
    try {
      outcome.score = await options.scoreFn(sandbox, outcome);
    } catch (error) {
      outcome.error ??= `scoreFn threw: ${textOf(error)}`;
    }
  }
}

function chosen(outcomes: BranchOutcome[], options: ExploreOptions): BranchOutcome | undefined {
  const viable = outcomes.filter((one) => one.ok || options.requireSuccess === false);
  if (viable.length === 0) return undefined;
  return typeof options.select === "function"
    ? options.select(viable)
    : ranked(viable, options.select)[0];
}

/** The best first; of equal ones the quicker. */
function ranked(outcomes: BranchOutcome[], select: ExploreOptions["select"]): BranchOutcome[] {
  const sign = select === "min" ? 1 : -1;
  return [...outcomes].sort((a, b) => sign * (a.score - b.score) || a.durationMs - b.durationMs);
}

/** Promotes the winner and deletes the rest. Without a winner nothing is left. */
async function keepWinner(
  result: ExploreResult,
  branches: readonly Sandbox[],
  options: ExploreOptions,
): Promise<void> {
  const kept = result.winnerOutcome?.sandbox;
  const cleanup = kept === undefined || (options.cleanupLosers ?? true);
  if (kept !== undefined && (options.promoteWinner ?? true)) {
    try {
      const treeId = result.treeId || undefined;
      const promotion = await kept.promote({ cleanupSiblings: cleanup, treeId });
      result.reaped = promotion.deleted ?? [];
      result.reapFailures = promotion.failures ?? {};
    } catch (error) {
      result.errors.push(`promote failed: ${textOf(error)}`);
    }
  }
  if (!cleanup) return;
  for (const branch of branches) {
    if (branch === kept || result.reaped.includes(branch.id)) continue;
    await branch.kill().then(
      () => result.reaped.push(branch.id),
      () => undefined,
    );
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
