import { streams, type SystemTask } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import { execute, type Decider } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { applicationDecider } from '../applications/decider.ts';
import { consoleSessionDecider } from '../console/decider.ts';
import { sessionDecider } from '../sessions/decider.ts';
import { changeToken, loadToken } from '../tokens/change.ts';
import { tokenDecider } from '../tokens/decider.ts';
import type { TokenErasure } from '../tokens/erasure.ts';
import type { Transactions } from '../transactions/handlers.ts';
import { isOpenerGone } from '../transactions/opener.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { Candidate, SourceName } from './candidates.ts';

export interface EndingDependencies {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes' | 'destroyKeys'>;
  readonly clock: Clock;
  readonly outcomes: TransactionOutcomes;
  readonly erasure: TokenErasure;
  readonly transactions: Pick<Transactions, 'settle'>;
}

/**
 * Ends the entity when its own stream says that its time is over. True when this call ended it. False when it had
 * ended before, or may not end yet.
 */
export type Ending = (candidate: Candidate, now: Date) => Promise<boolean>;

/** Ends transactions that are past their time, or whose caller has no valid key any more. */
function endingsOfTransactions({
  store,
  clock,
  outcomes,
  transactions,
}: EndingDependencies): Record<'expiredTransactions' | 'abandonedTransactions', Ending> {
  return {
    async expiredTransactions({ tenantId, id }) {
      const { kind } = await outcomes.endIfOver(tenantId, id);
      if (kind === 'open' || kind === 'absent') return false;
      await transactions.settle(tenantId, id);
      return true;
    },
    async abandonedTransactions({ tenantId, id }, now) {
      const { kind, ...state } = await outcomes.endIfOver(tenantId, id);
      const opener = kind === 'open' && 'opener' in state ? state.opener : undefined;
      if (!opener || !(await isOpenerGone({ store, tenantId, now }, opener))) return false;
      const context = systemContext(tenantId, 'transaction-expiry', clock);
      await outcomes.execute(tenantId, { kind: 'abandon', id }, context.event.bind(context));
      await transactions.settle(tenantId, id);
      return true;
    },
  };
}

/**
 * One function for each kind of entity that ends by time (interface.md, Time-based deletions), or with its caller. Any number may run at
 * once.
 */
export function createEndings(dependencies: EndingDependencies): Readonly<Record<SourceName, Ending>> {
  const { store, clock, erasure } = dependencies;

  /** A token that an open transaction locks waits for the end of the transaction, at most an hour. */
  const endToken =
    (kind: 'expire' | 'purge-cvc', task: SystemTask): Ending =>
    async ({ tenantId, id }, now) => {
      const context = systemContext(tenantId, task, clock);
      const { decided } = await changeToken(dependencies, {
        tenantId,
        load: () => loadToken(dependencies, id, context),
        decide: ({ state, lockedBy }) => ({
          facts: lockedBy === undefined ? tokenDecider.decide(state, { kind, now }) : [],
        }),
      });
      const { facts } = decided;
      await erasure.carryOut(tenantId, id, facts);
      return facts.length > 0;
    };

  const endAggregate =
    <State, Command>(
      streamOf: (tenantId: string, id: string) => string,
      decider: Decider<State, Command | { kind: 'expire'; now: Date }>,
      task: SystemTask,
    ): Ending =>
    async ({ tenantId, id }, now) => {
      const context = systemContext(tenantId, task, clock);
      const { position } = await execute({
        store,
        stream: streamOf(tenantId, id),
        decider,
        command: { kind: 'expire', now },
        event: context.event.bind(context),
      });
      return position !== undefined;
    };

  return {
    ...endingsOfTransactions(dependencies),
    expiredTokens: endToken('expire', 'token-expiry'),
    dueCvcs: endToken('purge-cvc', 'cvc-purge'),
    expiredApplications: endAggregate(streams.application, applicationDecider, 'application-expiry'),
    expiredSessions: endAggregate(streams.session, sessionDecider, 'session-expiry'),
    expiredConsoleSessions: endAggregate(streams.consoleSession, consoleSessionDecider, 'console-expiry'),
  };
}
