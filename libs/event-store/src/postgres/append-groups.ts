import type { AppendGroup, GroupMember } from '../append-group.ts';
import type { AppendRequest } from '../append-request.ts';
import type { AppendResult } from '../port.ts';
import type { AppendOutcome } from './append-statement.ts';

/** Stores the appends in one statement. The streams must differ. */
type Store = (requests: readonly AppendRequest[]) => Promise<readonly AppendOutcome[]>;

interface GatheredAppends {
  readonly requests: AppendRequest[];
  readonly outcomes: Promise<readonly AppendOutcome[]>;
}

/** Gathers the appends of the members of a group, and stores them when the group is complete. */
export function createGroupedAppend(store: Store) {
  const gathered = new WeakMap<AppendGroup, GatheredAppends>();

  return async (request: AppendRequest, member: GroupMember | undefined): Promise<AppendResult> => {
    const complete = member?.arrive();
    if (!member || !complete) return resultOf((await store([request]))[0]);
    let all = gathered.get(member.group);
    if (!all) {
      const requests: AppendRequest[] = [];
      all = { requests, outcomes: complete.then(() => storeEach(requests, store)) };
      gathered.set(member.group, all);
    }
    const place = all.requests.push(request) - 1;
    return resultOf((await all.outcomes)[place]);
  };
}

/**
 * Stores the appends of a group. A second append to the same stream cannot be in the same statement: it is stored afterwards, in a
 * statement of its own.
 */
async function storeEach(requests: readonly AppendRequest[], store: Store): Promise<AppendOutcome[]> {
  const streams = new Set<string>();
  const first = requests.filter(({ stream }) => streams.size !== streams.add(stream).size);
  const later = requests.filter((request) => !first.includes(request));
  const [outcomes, ...others] = await Promise.all([
    store(first),
    ...later.map((request) => store([request])),
  ]);
  const byRequest = new Map<AppendRequest, AppendOutcome | undefined>();
  for (const [index, request] of first.entries()) byRequest.set(request, outcomes[index]);
  for (const [index, request] of later.entries()) byRequest.set(request, others[index]?.[0]);
  return requests.map((request) => byRequest.get(request) ?? missing());
}

const missing = (): Error => new Error('an append got no answer');

function resultOf(outcome: AppendOutcome | undefined): AppendResult {
  if (outcome === undefined) throw missing();
  if (outcome instanceof Error) throw outcome;
  return outcome;
}
