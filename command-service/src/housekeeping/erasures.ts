import type { DataOf } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { comparePositions, type RecordedEvent } from '@token-vault/event-store';
import { reactorEntity } from '../reactors/configuration.ts';
import type { TokenErasure } from '../tokens/erasure.ts';
import type { Transactions } from '../transactions/handlers.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import { forEachConcurrently } from './concurrency.ts';

export interface ErasureDependencies {
  readonly keyRing: Pick<KeyRing, 'destroyKeys' | 'destroyKeysOfEntity' | 'destroyAllOfTenant'>;
  readonly erasure: TokenErasure;
  readonly outcomes: TransactionOutcomes;
  readonly transactions: Pick<Transactions, 'settle'>;
}

type Work = () => Promise<unknown>;
/** By what it is about, so that the same thing is done once a stretch. */
type Plan = Map<string, Work>;

interface Staged {
  readonly tenantId: string;
  readonly transactionId: string;
  readonly tokens: RecordedEvent[];
}

const atOnce = 16;

const tokenEvents = new Set([
  'TokenCreated',
  'TokenUpdated',
  'TokenDeleted',
  'TokenExpired',
  'TokenCvcPurged',
]);

/** Adds what an event outside of any transaction has decided. */
function planFor(plan: Plan, dependencies: ErasureDependencies, event: RecordedEvent): void {
  const { keyRing, transactions, erasure } = dependencies;
  const { tenant_id: tenantId } = event.metadata;
  switch (event.type) {
    case 'TokenDeleted':
    case 'TokenExpired':
    case 'TokenCvcPurged': {
      const { key_ids: keyIds } = event.data as unknown as DataOf<'TokenDeleted'>;
      plan.set(event.id, () => keyRing.destroyKeys(tenantId, keyIds));
      return;
    }
    case 'TokenUpdated': {
      // Only a card's cvc is ever replaced under another key; all other data keeps its own.
      const { token_id: tokenId, token_type: type } = event.data as unknown as DataOf<'TokenUpdated'>;
      if (type === 'card') planForToken(plan, erasure, tenantId, tokenId);
      return;
    }
    case 'TransactionCommitted':
    case 'TransactionRolledBack':
    case 'TransactionExpired': {
      const { transaction_id: id } = event.data as unknown as DataOf<'TransactionCommitted'>;
      plan.set(`transaction ${tenantId} ${id}`, () => transactions.settle(tenantId, id));
      return;
    }
    case 'ReactorDeleted': {
      const { reactor_id: id } = event.data as unknown as DataOf<'ReactorDeleted'>;
      plan.set(event.id, () => keyRing.destroyKeysOfEntity(tenantId, reactorEntity(id)));
      return;
    }
    case 'TenantDeleted':
      plan.set(`tenant ${tenantId}`, () => keyRing.destroyAllOfTenant(tenantId));
  }
}

function planForToken(plan: Plan, erasure: TokenErasure, tenantId: string, tokenId: string): void {
  plan.set(`token ${tenantId} ${tokenId}`, () => erasure.eraseUnneeded(tenantId, tokenId));
}

/** What a transaction wrote after its end never counts, and its end came too early to see to it. */
async function planForLate(plan: Plan, dependencies: ErasureDependencies, staged: Staged): Promise<void> {
  const { tenantId, transactionId, tokens } = staged;
  const state = await dependencies.outcomes.stateOf(tenantId, transactionId);
  if (state.kind === 'open') return;
  for (const event of tokens) {
    const isInTime = state.kind === 'committed' && comparePositions(event.position, state.position) < 0;
    const { token_id: tokenId } = event.data as unknown as DataOf<'TokenDeleted'>;
    if (!isInTime) planForToken(plan, dependencies.erasure, tenantId, tokenId);
  }
}

function stagedIn(events: readonly RecordedEvent[]): readonly Staged[] {
  const staged = new Map<string, Staged>();
  for (const event of events) {
    const { tenant_id: tenantId, transaction_id: transactionId } = event.metadata;
    if (transactionId === undefined || !tokenEvents.has(event.type)) continue;
    const key = `${tenantId} ${transactionId}`;
    const known = staged.get(key) ?? { tenantId, transactionId, tokens: [] };
    known.tokens.push(event);
    staged.set(key, known);
  }
  return [...staged.values()];
}

/**
 * Repeats the destruction of keys that events have decided. Its first time is in the command, before the answer; this one
 * makes up for a crash in between. Safe to repeat, and whole: everything in a stretch of the log is tried before an error is
 * thrown.
 */
export function createErasures(dependencies: ErasureDependencies) {
  return {
    /** Gives how many things it saw to. */
    async carryOut(events: readonly RecordedEvent[]): Promise<number> {
      const plan: Plan = new Map();
      for (const event of events) {
        if (event.metadata.transaction_id === undefined) planFor(plan, dependencies, event);
      }
      await forEachConcurrently(stagedIn(events), atOnce, (each) => planForLate(plan, dependencies, each));
      await forEachConcurrently([...plan.values()], atOnce, async (work) => void (await work()));
      return plan.size;
    },
  };
}
export type Erasures = ReturnType<typeof createErasures>;
