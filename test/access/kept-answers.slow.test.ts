import { randomUUID } from 'node:crypto';
import type { Token } from '@token-vault/contracts';
import { cardNumber, cardToken, waitUntil } from '@token-vault/test-support';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useDatabase } from '../world/database.ts';
import { passDecisionTime, useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, useVault } from '../world/vault.ts';

// The answer of a run with an idempotency key is decided, then stored, then sent. A withdrawal of a right while it is stored has effect (ADR 16).

const number = cardNumber();
const vault = useVault();
const { manager, makeApplication } = vault;
const database = useDatabase(vault);
const receiver = useReceiver(beforeEach);
let owner: Caller;
/** Holds the table of answers. */
let holder: pg.Client;

beforeAll(async () => {
  owner = await makeApplication({ rules: [rule()] });
  holder = new pg.Client(await vault.process().databaseUrl());
  await holder.connect();
});
afterAll(() => holder.end());

interface Run {
  readonly callerId: string;
  readonly reactorId: string;
  readonly cardId: string;
}

const isStoring = async () => {
  const text = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%idempotency.answer set answer =%'`;
  return (await database.query(text)).rowCount === 1;
};

/** The answer of a run that was given a card. `withdraw` is done while the answer is being stored. */
async function answerAfter(withdraw: (run: Run) => Promise<unknown>) {
  const caller = await makeApplication({ rules: [rule({ container: '/shown/' })] });
  const body = { ...cardToken(number), containers: ['/shown/'] };
  const { id: cardId } = (await owner.client.expect<Token>(201, 'POST', '/tokens', { body })).body;
  const reactorId = await vault.makeFunction(
    `await fetch(configuration.RECEIVER + '/gate');
     return { raw: args.card };`,
    { configuration: { RECEIVER: receiver.url } },
  );
  receiver.plan('hang');
  const answering = caller.client.request('POST', `/reactors/${reactorId}/react`, {
    headers: { 'SVC-IDEMPOTENCY-KEY': randomUUID() },
    body: { args: { card: `{{ ${cardId} }}` } },
  });
  await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
  await holder.query('begin; lock table idempotency.answer in exclusive mode');
  receiver.release();
  try {
    await waitUntil(isStoring, { what: 'the answer that is being stored' });
    await withdraw({ callerId: caller.id, reactorId, cardId });
    await passDecisionTime(performance.now());
  } finally {
    await holder.query('commit');
  }
  return answering;
}

describe('the answer of a run that is being stored for a repeat', () => {
  it('is given when nothing is withdrawn', async () => {
    const { status, body } = await answerAfter(async () => undefined);
    expect([status, JSON.stringify(body).includes(number)]).toEqual([200, true]);
  });

  it.each<[string, number, (run: Run) => Promise<unknown>]>([
    [
      'its caller was deleted',
      401,
      ({ callerId }) => manager.expect(204, 'DELETE', `/applications/${callerId}`),
    ],
    [
      'its caller may use no token of the container',
      403,
      ({ callerId }) =>
        manager.expect(200, 'PUT', `/applications/${callerId}`, {
          body: { name: 'a', rules: [rule({ container: '/other/' })] },
        }),
    ],
    [
      'the reactor was deleted',
      403,
      ({ reactorId }) => manager.expect(204, 'DELETE', `/reactors/${reactorId}`),
    ],
    [
      'the card was moved',
      403,
      ({ cardId }) =>
        owner.client.expect(200, 'PATCH', `/tokens/${cardId}`, { body: { containers: ['/other/'] } }),
    ],
  ])('is refused when %s', async (_what, refusal, withdraw) => {
    const { status, body } = await answerAfter(withdraw);
    expect(status).toBe(refusal);
    expect(JSON.stringify(body)).not.toContain(number);
  });
});
