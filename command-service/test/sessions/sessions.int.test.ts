import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { SessionOpened, streams, type DataOf, type OperationId } from '@token-vault/contracts';
import { hashApiKey } from '@token-vault/crypto';
import { createRequestContext } from '@token-vault/operations';
import { describe, expect, it } from 'vitest';
import { anyone, refusal, useVault, type TestVault } from '../tokens/vault.ts';

interface Session {
  readonly session_key: string;
  readonly nonce: string;
  readonly expires_at: string;
}

let vault: TestVault;
useVault((opened) => (vault = opened));

const as = (changes: Partial<Principal> = {}): Principal => {
  const id = randomUUID();
  const actor = { kind: 'application', id } as const;
  return anyone({
    tenant: vault.principal.tenant,
    actor,
    applicationId: id,
    keyHash: hashApiKey(id),
    ...changes,
  });
};
const open = async (principal = as({ applicationType: 'public' }), idempotencyKey?: string) => {
  const options = { as: principal, ...(idempotencyKey === undefined ? {} : { idempotencyKey }) };
  return (await vault.call('createSession', {}, options)).body as Session;
};
const authorize = (body: object, principal = as()) =>
  vault.call('authorizeSession', { body: { permissions: ['token:read'], ...body } }, { as: principal });

describe('a session', () => {
  it('is opened with a key, a nonce and three minutes', async () => {
    const session = await open();
    expect(session).toEqual({
      session_key: expect.stringMatching(/^key_ses_[1-9A-HJ-NP-Za-km-z]{24}$/) as unknown,
      nonce: expect.stringMatching(/^[\da-f-]{36}\.[\w-]{32}$/) as unknown,
      expires_at: '2030-01-01T00:03:00.000Z',
    });
    const [event] = await vault.events();
    expect(event?.data).toMatchObject({ key_hash: hashApiKey(session.session_key) });
    const log = JSON.stringify(await vault.events());
    expect(log).not.toContain(session.session_key);
    expect(log).not.toContain(session.nonce);
  });

  it('is authorized with only its nonce, and once', async () => {
    const { nonce } = await open();
    const { body, position } = await authorize({ nonce });
    expect(body).toBeUndefined();
    expect(position).toBeDefined();
    await expect(authorize({ nonce })).rejects.toMatchObject(refusal('session_already_authorized'));
    const types = (await vault.events()).map(({ type }) => type);
    expect(types).toEqual(['SessionOpened', 'SessionAuthorized']);
  });

  it('records the keys by which it was opened and authorized', async () => {
    const [opener, authorizer] = [as({ applicationType: 'public' }), as()];
    const { nonce } = await open(opener);
    await authorize({ nonce }, authorizer);
    expect((await vault.events()).map(({ data }) => data)).toMatchObject([
      { opener_key_hash: opener.keyHash },
      { authorizer_key_hash: authorizer.keyHash },
    ]);
  });

  it('that an attacker has written into the log is not authorized', async () => {
    const opener = as({ applicationType: 'public' });
    await open(opener);
    const genuine = (await vault.events()).at(-1)?.data as DataOf<'SessionOpened'>;
    const id = randomUUID();
    const nonce = `${id}.${'n'.repeat(32)}`;
    const hashes = { key_hash: hashApiKey('a key of the attacker'), nonce_hash: hashApiKey(nonce) };
    const context = createRequestContext({ principal: opener, traceId: 'attacker', now: vault.clock.now() });
    const forged = context.event(SessionOpened, { ...genuine, ...hashes, session_id: id });
    await vault.log.append(streams.session(opener.tenant.id, id), [forged], 'any');
    await expect(authorize({ nonce })).rejects.toMatchObject({ code: 'record_altered', status: 500 });
  });

  it('is authorized by one of many who try at once', async () => {
    const { nonce } = await open();
    const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => authorize({ nonce })));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const codes = outcomes.flatMap((each) =>
      each.status === 'rejected' ? [(each.reason as { code: string }).code] : [],
    );
    expect(new Set(codes)).toEqual(new Set(['session_already_authorized']));
  });

  it('is not found after three minutes', async () => {
    const { nonce } = await open();
    vault.clock.advance(3 * 60 * 1000);
    await expect(authorize({ nonce })).rejects.toMatchObject(refusal('not_found'));
  });

  it('of another tenant is not found', async () => {
    const { nonce } = await open();
    await vault.newTenant();
    await expect(authorize({ nonce })).rejects.toMatchObject(refusal('not_found'));
  });

  it.each(['nonsense', `${randomUUID()}.${'a'.repeat(32)}`])('is not found by %s', async (nonce) => {
    await expect(authorize({ nonce })).rejects.toMatchObject(refusal('not_found'));
  });

  it('reads an end without an offset as UTC', async () => {
    const { nonce } = await open();
    await authorize({ nonce, expires_at: '2030-01-01T00:30:00' });
    expect((await vault.events()).at(-1)?.data).toMatchObject({ expires_at: '2030-01-01T00:30:00Z' });
  });

  it('is a new session when the first answer was lost', async () => {
    const caller = as({ applicationType: 'public' });
    const first = await open(caller, 'once');
    const second = await open(caller, 'once');
    await authorize({ nonce: second.nonce });
    expect(second.nonce).not.toBe(first.nonce);
    const stream = streams.session(caller.tenant.id, second.nonce.slice(0, 36));
    expect((await vault.events(stream))[0]?.data).toMatchObject({
      key_hash: hashApiKey(second.session_key),
    });
  });
});

describe('callers that may not', () => {
  const session = { kind: 'session', id: randomUUID() } as const;
  it.each<[string, OperationId, Partial<Principal>]>([
    ['a private application opens', 'createSession', { applicationType: 'private' }],
    ['a management application opens', 'createSession', { applicationType: 'management' }],
    ['a session opens', 'createSession', { applicationType: 'public', actor: session }],
    ['a public application authorizes', 'authorizeSession', { applicationType: 'public' }],
    ['a management application authorizes', 'authorizeSession', { applicationType: 'management' }],
    ['a session authorizes', 'authorizeSession', { applicationType: 'private', actor: session }],
  ])('%s', async (_who, id, changes) => {
    const body = { nonce: 'nonce', permissions: ['token:read'] };
    await expect(vault.call(id, { body }, { as: as(changes) })).rejects.toMatchObject(refusal('forbidden'));
  });
});
