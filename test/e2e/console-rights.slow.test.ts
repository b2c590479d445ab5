import type { AccessMatrix, Application, Explanation, Token, Transform } from '@token-vault/contracts';
import { cardNumber } from '@token-vault/test-support';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signedIn } from './console-browser.ts';
import { startVault, type RunningVault } from './running-vault.ts';

const number = cardNumber();
const masked = `XXXXXXXXXXXX${number.slice(-4)}`;
const tokenPermissions = ['create', 'read', 'update', 'delete', 'search', 'use'].map(
  (verb) => `token:${verb}`,
);

let vault: RunningVault;
let revealing: Application;

const make = (body: object) =>
  vault.must<Application>(201, {
    method: 'POST',
    path: '/applications',
    key: vault.managementKey,
    body: { name: 'a', type: 'private', ...body },
  });
const keyOf = ({ key = '' }: Application): string => key;

beforeAll(async () => {
  vault = await startVault();
  const rule = { description: 'all', priority: 1, container: '/', transform: 'reveal' };
  revealing = await make({ rules: [{ ...rule, permissions: tokenPermissions }] });
});
afterAll(() => vault.stop());

describe('a session with a management and a private key', () => {
  it('commits the transaction that it opened, and rolls one back', async () => {
    const { must } = await signedIn(vault, keyOf(revealing));
    const body = { type: 'card', data: { number } };
    for (const [end, status] of [
      ['commit', 200],
      ['rollback', 404],
    ] as const) {
      const { id } = await must<{ id: string }>(201, { method: 'POST', path: '/transactions' });
      const headers = { 'SVC-TRANSACTION-ID': id };
      const token = await must<Token>(201, { method: 'POST', path: '/tokens', body, headers });
      await must(404, { path: `/tokens/${token.id}` });
      await must(200, { method: 'POST', path: `/transactions/${id}/${end}` });
      await must(status, { path: `/tokens/${token.id}` });
    }
  });

  it('sees tokens of its batches, of tokenize and of its code at most masked', async () => {
    const { call, must } = await signedIn(vault, keyOf(revealing));
    const card = { type: 'card', data: { number } };
    const code = `module.exports = async () => ({ tokenize: { made: ${JSON.stringify(card)} } });`;
    const reactor = { name: 'maker', code, configuration: {} };
    const { id } = await must<{ id: string }>(201, { method: 'POST', path: '/reactors', body: reactor });
    const replies = [
      await call({ method: 'POST', path: '/tokens/batch', body: { tokens: [card, card] } }),
      await call({ method: 'POST', path: '/tokenize', body: { made: card, list: [card] } }),
      await call({ method: 'POST', path: `/reactors/${id}/react`, body: { args: {} } }),
    ];
    for (const { status, text } of replies) {
      expect([status < 300, text.includes(number), text.includes(masked)], text).toEqual([true, false, true]);
    }
  });

  it('cannot authorize a session of another browser, which could see more', async () => {
    const { call } = await signedIn(vault, keyOf(revealing));
    const open = await make({ type: 'public', permissions: ['token:create'] });
    const request = { method: 'POST', path: '/sessions', key: keyOf(open) };
    const { nonce } = await vault.must<{ nonce: string }>(201, request);
    const body = { nonce, permissions: ['token:read'] };
    expect((await call({ method: 'POST', path: '/sessions/authorize', body })).status).toBe(403);
  });
});

const containers = ['/a/', '/a/b/', '/c/'];
const transform = fc.constantFrom<Transform>('redact', 'mask', 'reveal');
const rules = fc
  .array(
    fc.record(
      {
        container: fc.constantFrom('/', '/a/', '/a/b/', '/c/'),
        transform,
        permissions: fc.subarray(['token:read', 'token:delete', 'token:search'], { minLength: 1 }),
        reason: fc.constantFrom('required'),
      },
      { requiredKeys: ['container', 'transform', 'permissions'] },
    ),
    { maxLength: 4 },
  )
  .map((each) => each.map((rule, index) => ({ ...rule, description: '', priority: index + 1 })));
const rights = fc
  .record({ rules, permissions: fc.subarray(['token:read', 'token:delete']) })
  .filter((granted) => granted.rules.length + granted.permissions.length > 0);

/** The transform by which the answer to a read shows the card. */
function shownIn({ status, text }: { readonly status: number; readonly text: string }): string {
  if (status === 403) return 'none';
  if (text.includes(number)) return 'reveal';
  return text.includes(masked) ? 'mask' : 'redact';
}

describe('the access of applications', () => {
  it('is the same in the matrix, in the explanation and in reads, for generated rights', async () => {
    const { must } = await signedIn(vault, keyOf(revealing));
    const tokens: Token[] = [];
    for (const container of containers) {
      const body = { type: 'card', data: { number }, containers: [container] };
      tokens.push(await must<Token>(201, { method: 'POST', path: '/tokens', body }));
    }
    const seen = new Set<string>();
    for (const granted of fc.sample(rights, { numRuns: 25, seed: 22 })) {
      const application = await make(granted);
      const path = `/applications/access?id=${application.id}`;
      const matrix = await must<AccessMatrix>(200, { path });
      for (const [index, { id }] of tokens.entries()) {
        const cell = matrix.data[0]?.access[matrix.containers.indexOf(containers[index] ?? '')];
        const told = `/applications/${application.id}/explain?token_id=${id}`;
        const { operations } = await must<Explanation>(200, { path: told });
        const explained = operations.find(({ permission }) => permission === 'token:read');
        const read = (headers: Record<string, string>) =>
          vault.call({ path: `/tokens/${id}`, key: keyOf(application), headers });
        const real = {
          transform: shownIn(await read({})),
          with_reason: shownIn(await read({ 'SVC-REASON': 'a dispute' })),
        };
        const message = JSON.stringify([granted, containers[index], cell, explained, real]);
        for (const given of [cell, explained])
          expect(
            given && { transform: given.transform, with_reason: given.with_reason ?? given.transform },
            message,
          ).toEqual(real);
        seen.add(`${real.transform} ${real.with_reason}`);
      }
    }
    // There are four transforms. With more pairs, the rights include some by which a reason changes the transform.
    expect(seen.size).toBeGreaterThan(4);
  });
});
