import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  entityTypes,
  eventDefinitions,
  eventRegistry,
  isUuid,
  logOperations,
  systemActors,
  transforms,
  type NewEvent,
  type VaultEvent,
} from '@token-vault/contracts';
import type { Occurrence, SqlOp } from '../src/projection.ts';
import { logHandlers, unloggedEvents } from '../src/projections/log-entries.ts';
import { event, sealed } from './events.ts';

/** A fixture of every released version of every event. */
const folder = path.resolve(import.meta.dirname, '../../contracts/test/fixtures/events');
const fixtures = readdirSync(folder).map((file): [string, NewEvent] => [
  file,
  JSON.parse(readFileSync(path.join(folder, file), 'utf8')) as NewEvent,
]);

function entriesOf(told: ReturnType<typeof event>, ordinal = 0) {
  const handler = logHandlers[told.type] as (event: Occurrence) => readonly SqlOp[];
  const ops = handler({ ...told, position: '7', ordinal });
  return ops.map((op) => (op.kind === 'insert' ? op.row : {}));
}

describe('the log', () => {
  it('has entries for every event, except those left out on purpose', () => {
    const known = eventDefinitions.map(({ type }) => type).sort();
    expect([...Object.keys(logHandlers), ...unloggedEvents].sort()).toEqual(known);
  });

  it('has an entry for each token read, under its kind', () => {
    const read = ['card', 'bank', 'social_security_number'].map((token_type, index) => ({
      token_id: `t${index}`,
      token_type,
      transform: 'mask' as const,
    }));
    expect(entriesOf(event('TokensRead', { operation: 'search', tokens: read }), 3)).toMatchObject([
      { entity_type: 'card', entity_id: 't0', operation: 'search', ordinal: 3, seq: '7' },
      { entity_type: 'bank', entity_id: 't1', ordinal: 4 },
      { entity_type: 'token', entity_id: 't2', ordinal: 5, message: 'Token found' },
    ]);
  });

  it('names the transform, the request and the trace', () => {
    const read = event(
      'TokensRead',
      {
        operation: 'read',
        tokens: (['reveal', 'mask', 'redact'] as const).map((transform) => ({
          token_id: transform,
          token_type: 'card',
          transform,
        })),
      },
      { trace_id: 'trace-1', request: 'getToken' },
    );
    expect(entriesOf(read)).toMatchObject(
      ['reveal', 'mask', 'redact'].map((transform) => ({
        entity_id: transform,
        transform,
        trace_id: 'trace-1',
        request: 'getToken',
      })),
    );
  });

  it.each([
    ['search', 'Token search found nothing'],
    ['list', 'Token list found nothing'],
  ] as const)('has an entry without an id for a %s without hits', (operation, message) => {
    const entries = entriesOf(event('TokensRead', { operation, tokens: [] }));
    expect(entries).toMatchObject([{ entity_type: 'token', operation, message }]);
    expect(entries[0]?.['entity_id']).toBeUndefined();
    expect(entries[0]?.['transform']).toBeUndefined();
  });

  it.each([
    ['search', 'Token search found 3, showed none'],
    ['list', 'Token list found 3, showed none'],
  ] as const)('shows the number of hits of a %s whose page is empty', (operation, message) => {
    const entries = entriesOf(event('TokensRead', { operation, tokens: [], found: 3 }));
    expect(entries).toMatchObject([{ entity_type: 'token', operation, message }]);
    expect(entries[0]?.['entity_id']).toBeUndefined();
  });

  it('names the token that deduplication found, and its transform', () => {
    const tokens = [{ token_id: 't1', token_type: 'bank', transform: 'redact' as const }];
    expect(entriesOf(event('TokensRead', { operation: 'deduplicate', tokens }))).toMatchObject([
      {
        entity_type: 'bank',
        entity_id: 't1',
        operation: 'read',
        transform: 'redact',
        message: 'Token met by deduplication',
      },
    ]);
  });

  it('has one entry for a write and for the data in its answer', () => {
    const content = { token_id: 'a', token_type: 'card', data: sealed('d'), containers: ['/'] };
    expect(entriesOf(event('TokenUpdated', { ...content, shown: 'mask' }))).toMatchObject([
      { operation: 'update', transform: 'mask' },
    ]);
    expect(entriesOf(event('TokenCreated', { ...content, shown: 'reveal' }))).toMatchObject([
      { operation: 'create', transform: 'reveal' },
    ]);
    expect(entriesOf(event('TokenCreated', content))[0]?.['transform']).toBeUndefined();
  });

  it('has entries of an invocation and of its outcome with the operation invoke', () => {
    const identity = { invocation_id: 'i', reactor_id: 'r' };
    const ended = { ...identity, mode: 'sync', result: sealed('o') } as const;
    const failed = { ...identity, mode: 'sync', status: 500, reason: 'threw', problem: sealed('o') } as const;
    expect([
      ...entriesOf(event('ReactorSucceeded', ended)),
      ...entriesOf(event('ReactorFailed', failed)),
      ...entriesOf(event('WebhookDelivered', { ...identity, attempt: 1 })),
    ]).toMatchObject([
      { operation: 'invoke', message: 'Reactor succeeded' },
      { operation: 'invoke', message: 'Reactor failed' },
      { operation: 'invoke', message: 'Reactor webhook delivered' },
    ]);
  });

  it('names the vault itself by a fixed UUID for each of its tasks, also in older events', () => {
    const expired = { token_id: 'a', token_type: 'card', key_ids: [] };
    const by = (id: string) => ({ actor: { kind: 'system', id } }) as const;
    const [entry] = entriesOf(event('TokenExpired', expired, by('token-expiry')));
    expect(entry).toMatchObject({ actor_id: systemActors['token-expiry'], actor_type: 'system' });
    const [unknown] = entriesOf(event('TokenExpired', expired, by('a task of former days')));
    expect(isUuid(unknown?.['actor_id'] as string)).toBe(true);
  });

  it('names the refused operation, also for events without one', () => {
    const denied = { entity_type: 'card', entity_id: 't1', operation: 'getToken' } as const;
    expect(entriesOf(event('AccessDenied', denied))).toMatchObject([
      { entity_type: 'card', entity_id: 't1', operation: 'denied', request: 'getToken' },
    ]);
  });

  it('has an entry for each exported token', () => {
    const tokens = [{ token_id: 't1', token_type: 'card' }];
    const exported = event('TokensExported', {
      export_id: crypto.randomUUID(),
      recipients: ['age1'],
      tokens,
    });
    expect(entriesOf(exported)).toMatchObject([
      { entity_type: 'card', entity_id: 't1', operation: 'export', message: 'Token exported' },
    ]);
  });

  it('has one entry without an entity for a whole list', () => {
    const entries = entriesOf(
      event('EntitiesRead', { entity_type: 'log', operation: 'list', entity_ids: [] }),
    );
    expect(entries).toMatchObject([{ entity_type: 'log', operation: 'list', message: 'Log listed' }]);
    expect(entries[0]?.['entity_id']).toBeUndefined();
  });

  it('names the refused actor, and cuts texts that are not an id', () => {
    const denied = { entity_type: 'token', entity_id: 'x'.repeat(5000), operation: 'read' } as const;
    const [entry] = entriesOf(event('AccessDenied', denied));
    expect(entry).toMatchObject({
      operation: 'denied',
      message: 'Token access denied',
      actor_type: 'application',
    });
    expect(entry?.['entity_id']).toHaveLength(400);
  });

  it('has an entry for a session or an application that failed to authenticate', () => {
    const id = '00000000-0000-4000-8000-0000000000d1';
    expect(entriesOf(event('AuthenticationFailed', { session_id: id, reason: 'expired' }))).toMatchObject([
      { entity_type: 'session', entity_id: id, operation: 'authenticate' },
    ]);
    expect(entriesOf(event('AuthenticationFailed', { application_id: id, reason: 'deleted' }))).toMatchObject(
      [{ entity_type: 'application', entity_id: id }],
    );
  });

  it.each(fixtures)('has valid entries for %s as it was released', (_name, fixture) => {
    const { data } = eventRegistry.upcast(fixture.type, fixture.version, fixture.data);
    if (!(fixture.type in logHandlers)) return expect(unloggedEvents).toContain(fixture.type);
    const entries = entriesOf({ ...fixture, data } as unknown as VaultEvent);
    expect(entries.length).toBeGreaterThan(0);
    for (const { entity_type: entity, operation, actor_id: actor, transform } of entries) {
      expect(entityTypes).toContain(entity);
      expect(logOperations).toContain(operation);
      expect([undefined, ...transforms]).toContain(transform);
      if (fixture.metadata.actor.kind === 'system') expect(isUuid(actor as string)).toBe(true);
    }
  });

  it('knows only the entity types of the interface', () => {
    const told = event('TokenCreated', {
      token_id: 'a',
      token_type: 'card',
      data: sealed('d'),
      containers: ['/'],
    });
    expect(entityTypes).toContain(entriesOf(told)[0]?.['entity_type']);
  });
});
