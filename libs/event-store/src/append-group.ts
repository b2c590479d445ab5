/**
 * The appends of one request to several streams. A store with transactions stores those whose expectation holds in one transaction: after a
 * crash all of them are there, or none (ADR 31). Other stores store each by itself. Each append gets its own result in both cases.
 *
 * A group has a fixed number of members, and each makes at most one append in it. The appends are sent when every member has made its
 * append or has left, so a member that ends, fails, or waits for another one must leave.
 */
export class AppendGroup {
  readonly #isComplete = Promise.withResolvers<void>();
  #awaited: number;

  constructor(members: number) {
    this.#awaited = members;
  }

  /** Must be called once for each member. */
  join(): GroupMember {
    return new GroupMember(this, () => {
      this.#awaited -= 1;
      if (this.#awaited === 0) this.#isComplete.resolve();
      return this.#isComplete.promise;
    });
  }
}

export class GroupMember {
  readonly group: AppendGroup;
  readonly #settle: () => Promise<void>;
  #isAwaited = true;

  constructor(group: AppendGroup, settle: () => Promise<void>) {
    this.group = group;
    this.#settle = settle;
  }

  /** Leaves the group: the group does not wait for this member, and the member's later appends are stored by themselves. */
  leave(): void {
    void this.arrive();
  }

  /** Resolves when the group is complete. Undefined when the member has left, or has made its append. */
  arrive(): Promise<void> | undefined {
    if (!this.#isAwaited) return undefined;
    this.#isAwaited = false;
    return this.#settle();
  }
}
