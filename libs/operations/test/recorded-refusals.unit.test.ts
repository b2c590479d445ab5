import { AccessDenied, TokensRead, type VaultEvent } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { createRequestContext, deniedEvent, RecordedRefusals } from '../src/index.ts';

const context = createRequestContext({
  principal: {
    tenant: { id: '7d9f0c5e-4a53-4b0e-9a55-0a3c1d2e4f60', plan: 'standard', settings: {} },
    actor: { kind: 'session', id: 's' },
    applicationId: 'a',
    authorizedBy: 'a',
    applicationType: 'private',
    permissions: [],
    rules: [],
    reason: 'ticket 1',
  },
  traceId: 't',
  now: new Date(0),
  request: 'react',
});
const deniedTo = (id: string): VaultEvent =>
  context.event(AccessDenied, { entity_type: 'token', entity_id: id, operation: 'react' });
const reading = () => context.event(TokensRead, { operation: 'read', tokens: [] });

/** A log that keeps what is appended, and that may be unavailable. */
function openLog() {
  const log = { events: [] as VaultEvent[], isDown: false };
  const append = async (events: readonly VaultEvent[]) => {
    if (log.isDown) throw new Error('down');
    log.events.push(...events);
    return String(log.events.length) as Position;
  };
  return { log, append };
}

it('records equal refusals once, also within one append, and everything else each time', async () => {
  const { log, append } = openLog();
  const refusals = new RecordedRefusals();
  expect(await refusals.append([deniedTo('a'), deniedTo('a')], append)).toBe('1');
  await Promise.all([refusals.append([deniedTo('b')], append), refusals.append([deniedTo('b')], append)]);
  expect(await refusals.append([deniedTo('a')], append)).toBe('1');
  await refusals.append([deniedTo('a'), reading(), reading()], append);
  const told = log.events.map(({ type, data }) => ('entity_id' in data ? data.entity_id : type));
  expect(told).toEqual(['a', 'b', 'TokensRead', 'TokensRead']);
});

it('records a refusal again whose record failed, and does not name it before', async () => {
  const { log, append } = openLog();
  const refusals = new RecordedRefusals();
  log.isDown = true;
  await expect(refusals.append([deniedTo('a')], append)).rejects.toThrow('down');
  expect(refusals.names).toEqual([]);
  log.isDown = false;
  await refusals.append([deniedTo('a')], append);
  expect([log.events.length, refusals.names.length]).toEqual([1, 1]);
});

it('does not record what another run has recorded', async () => {
  const { log, append } = openLog();
  const [inner, outer] = [new RecordedRefusals(), new RecordedRefusals()];
  await inner.append([deniedTo('a')], append);
  outer.note(inner.names);
  await outer.append([deniedTo('a')], append);
  expect(log.events).toHaveLength(1);
  expect(outer.names).toEqual(inner.names);
});

it('keeps a thousand refusals in mind, and records the others each time', async () => {
  const { log, append } = openLog();
  const refusals = new RecordedRefusals();
  const all = Array.from({ length: 1_001 }, (_, index) => `token ${index}`);
  for (let time = 0; time < 3; time += 1) for (const id of all) await refusals.append([deniedTo(id)], append);
  expect(log.events).toHaveLength(1_003);
});

it('is in the name of whoever lacks the right', () => {
  const asked = { entity: { type: 'reactor', id: 'r' }, permission: 'token:use' } as const;
  const own = deniedEvent(context, {}, asked);
  expect(own).toMatchObject({
    data: { entity_type: 'reactor', entity_id: 'r', permission: 'token:use', operation: 'react' },
    metadata: context.metadata,
  });
  const lacking = { actor: { kind: 'application', id: 'other' }, permission: 'token:read' } as const;
  const others = deniedEvent(context, { entity: { type: 'card', id: 'c' }, lacking }, asked);
  const { application_id: _authorizer, ...metadata } = context.metadata;
  expect(others).toMatchObject({
    data: { entity_type: 'card', entity_id: 'c', permission: 'token:read', operation: 'react' },
  });
  expect(others.metadata).toEqual({ ...metadata, actor: lacking.actor });
});
