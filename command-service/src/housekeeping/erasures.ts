import type { KeyRing } from '@token-vault/crypto';
import { comparePositions, type RecordedEvent } from '@token-vault/event-store';
import { entityOf } from '../reactors/configuration.ts';
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
/** Work by its subject, so that each subject is handled once in a stretch of the log. */
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

/** Adds the work that an event outside of any transaction has decided. */
function planFor(plan: Plan, dependencies: ErasureDependencies, event: RecordedEvent): void {
  const { keyRing, transactions, erasure } = dependencies;
  const { tenant_id: tenantId } = event.metadata;
  switch (event.type) {
    case 'TokenDeleted':
    case 'TokenExpired': {
      const { token_id: id, key_ids: keyIds } = event.data;
      plan.set(event.id, () => erasure.repeatEnd(tenantId, id, keyIds));
      return;
    }
    case 'TokenCvcPurged': {
      const { key_ids: keyIds } = event.data;
      plan.set(event.id, () => keyRing.destroyKeys(tenantId, keyIds));
      return;
    }
    case 'TokenUpdated': {
      const { token_id: id, token_type: type, key_ids } = event.data;
      // Only the cvc of a card is ever replaced under another key. Version 1 does not say whether it was.
      if (key_ids) plan.set(event.id, () => keyRing.destroyKeys(tenantId, key_ids));
      else if (type === 'card')
        plan.set(`token ${tenantId} ${id}`, () => erasure.eraseUnneeded(tenantId, id));
      return;
    }
    case 'TransactionCommitted':
    case 'TransactionRolledBack':
    case 'TransactionExpired': {
      const { transaction_id: id } = event.data;
      plan.set(`transaction ${tenantId} ${id}`, () => transactions.settle(tenantId, id));
      return;
    }
    case 'ReactorDeleted': {
      const { reactor_id: id } = event.data;
      plan.set(event.id, () => keyRing.destroyKeysOfEntity(tenantId, entityOf('reactor', id)));
      return;
    }
    case 'ProxyDeleted': {
      const { proxy_id: id } = event.data;
      plan.set(event.id, () => keyRing.destroyKeysOfEntity(tenantId, entityOf('proxy', id)));
      return;
    }
    case 'TenantDeleted':
      plan.set(`tenant ${tenantId}`, () => keyRing.destroyAllOfTenant(tenantId));
      return;
    default:
      return;
  }
}

/**
 * An event that came after the end of its transaction never counts, and the end of the transaction came too early to
 * destroy its keys.
 */
async function planForLate(plan: Plan, dependencies: ErasureDependencies, staged: Staged): Promise<void> {
  const { tenantId, transactionId, tokens } = staged;
  const { outcomes, erasure } = dependencies;
  const outcome = await outcomes.endIfOver(tenantId, transactionId);
  if (outcome.kind === 'open') return;
  const late = tokens.filter(
    ({ position }) => outcome.kind !== 'committed' || comparePositions(position, outcome.position) > 0,
  );
  if (late.length === 0) return;
  const state = await outcomes.endIfOverWithWrites(tenantId, transactionId);
  for (const event of late) plan.set(event.id, () => erasure.eraseLate(tenantId, event, state));
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
 * Repeats the destruction of keys that events have decided. The command destroys them before its answer; this covers
 * a crash in between. It is safe to repeat. All events of a stretch are tried before an error is thrown.
 */
export function createErasures(dependencies: ErasureDependencies) {
  return {
    /** Gives the number of subjects that it handled. */
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
