import type { DataOf, VaultEventType } from '@token-vault/contracts';
import { expect, it } from 'vitest';
import type { Occurrence, Row, SqlOp } from '../src/projection.ts';
import { alerts } from '../src/projections/alerts.ts';
import { invocations } from '../src/projections/invocations.ts';
import { sealed, tenantId } from './events.ts';

const occurred_at = '2030-01-01T10:20:30.000Z';
const runner = { kind: 'system', id: 'reactor-runner' } as const;

function occurrence<Type extends VaultEventType>(
  type: Type,
  data: DataOf<Type>,
  actor: Occurrence['metadata']['actor'] = runner,
): Occurrence<Type> {
  const metadata = { tenant_id: tenantId, actor, trace_id: 't', correlation_id: 'c', occurred_at };
  return { id: 'event', type, data, metadata, position: '1', ordinal: 0 };
}

/** The rows of `delivery` after these changes. */
function deliveriesAfter(changes: readonly (readonly SqlOp[] | undefined)[]): readonly Row[] {
  const rows = new Map<unknown, Row>();
  for (const op of changes.flatMap((each) => each ?? [])) {
    if (op.kind === 'copy' || op.table !== 'delivery') continue;
    if (op.kind === 'insert') rows.set(op.row['id'], op.row);
    if (op.kind === 'update') rows.set(op.key['id'], { ...rows.get(op.key['id']), ...op.set });
    if (op.kind === 'delete') rows.delete(op.key['id']);
  }
  return [...rows.values()];
}

const application = (id: string) => ({ kind: 'application', id }) as const;
const { on } = invocations;
const ids = { invocation_id: 'run', reactor_id: 'reactor' };
const asked = { ...ids, reactor_revision: 0, token_ids: [], timeout_ms: 1_000, depth: 0 };
const invoked = occurrence(
  'ReactorInvoked',
  { ...asked, mode: 'async', args: sealed('args') },
  application('app'),
);
const succeeded = occurrence('ReactorSucceeded', { ...ids, mode: 'async', result: sealed('result') });
const row = { id: 'run', tenant_id: tenantId, application_id: 'app' };

it('the result of an asynchronous run takes the turn of the application that asked for the run, and is due when it is over', () => {
  const begun = on.ReactorInvoked?.(invoked);
  expect(deliveriesAfter([begun])).toEqual([row]);
  const ended = on.ReactorSucceeded?.(succeeded);
  expect(deliveriesAfter([begun, ended])).toEqual([{ ...row, next_at: occurred_at }]);
  const delivered = on.WebhookDelivered?.(occurrence('WebhookDelivered', { ...ids, attempt: 1 }));
  expect(deliveriesAfter([begun, ended, delivered])).toEqual([]);
});

it('a result that is to be delivered again takes the turn of the application that asked for that', () => {
  const again = occurrence('WebhookRedeliveryRequested', ids, application('other'));
  const givenUp = on.WebhookGivenUp?.(
    occurrence('WebhookGivenUp', { ...ids, attempt: 11, reason: 'timeout' }),
  );
  const changes = [on.ReactorInvoked?.(invoked), on.ReactorSucceeded?.(succeeded), givenUp];
  const after = deliveriesAfter([...changes, on.WebhookRedeliveryRequested?.(again)]);
  expect(after).toEqual([{ ...row, application_id: 'other', next_at: occurred_at }]);
});

it('a security webhook takes the turn of the application that was shown the token', () => {
  const tokens = [{ token_id: 'token', token_type: 'card', transform: 'reveal', break_glass: true } as const];
  const read = occurrence('TokensRead', { operation: 'read', tokens }, application('app'));
  expect(deliveriesAfter([alerts.on.TokensRead?.(read)])).toMatchObject([{ application_id: 'app' }]);
});
