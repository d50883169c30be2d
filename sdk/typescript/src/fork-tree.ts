/** Copies of a sandbox that were made together. */

import type { ForkFailure } from "./core/models.js";
import { BadRequestError } from "./errors.js";
import type { PromoteResult, Sandbox } from "./sandbox.js";
import type { CallOptions } from "./transport.js";

/** Options of a promotion. */
export interface TreePromoteOptions extends CallOptions {
  /** Deletes all other branches. */
  cleanupSiblings?: boolean | undefined;
}

/**
 * The branches of one fork tree. It is also an array of them.
 *
 * ```ts
 * const tree = await sandbox.forkTree(4);
 * const scores = await Promise.all(tree.branches.map(evaluate));
 * await tree.promote(best(scores).sandboxId, { cleanupSiblings: true });
 * ```
 */
export class ForkTree extends Array<Sandbox> {
  /** The id of the tree. */
  readonly id: string;
  readonly parentId: string;
  readonly snapshotId: string;
  /** Why some branches could not be made. The others run. */
  readonly errors: readonly ForkFailure[];

  /** `map`, `filter` and the like give plain arrays. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  constructor(
    branches: readonly Sandbox[],
    tree: { id: string; parentId: string; snapshotId: string; errors: readonly ForkFailure[] },
  ) {
    super();
    this.push(...branches);
    this.id = tree.id;
    this.parentId = tree.parentId;
    this.snapshotId = tree.snapshotId;
    this.errors = tree.errors;
  }

  /** The branches, in order. */
  get branches(): Sandbox[] {
    return Array.from(this);
  }

  /** Keeps one branch, given by itself or its id, as a sandbox of its own. */
  promote(winner: string | Sandbox, options: TreePromoteOptions = {}): Promise<PromoteResult> {
    const id = typeof winner === "string" ? winner : winner.id;
    const branch = this.find((one) => one.id === id);
    if (branch === undefined) {
      throw new BadRequestError(`${id} is not a branch of the tree ${this.id}; see tree.branches`);
    }
    return branch.promote({ ...options, treeId: this.id });
  }

  /** Deletes all branches that still exist. */
  async deleteAll(options: CallOptions = {}): Promise<void> {
    await Promise.all(this.branches.map((branch) => branch.kill(options).catch(() => undefined)));
  }
}
