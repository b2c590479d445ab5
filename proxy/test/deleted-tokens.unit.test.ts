import type { SeenToken, TokenIdentity } from '@token-vault/contracts';
import { createRequestContext } from '@token-vault/operations';
import { manualClock } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { ProxyCode } from '../src/code.ts';
import type { ConfiguredProxy } from '../src/configured.ts';

const proxy: ConfiguredProxy = {
  id: randomUUID(),
  revision: 0,
  destination: 'https://api.example.com',
  destinations: [],
  requestCode: undefined,
  responseCode: 'code',
  applicationId: 'app',
  configuration: async () => ({}),
};
const context = createRequestContext({
  principal: {
    tenant: { id: randomUUID(), plan: 'enterprise', settings: {} },
    actor: { kind: 'application', id: 'caller' },
    applicationId: 'caller',
    applicationType: 'private',
    permissions: ['token:use'],
    rules: [],
  },
  traceId: 't',
  now: new Date('2030-01-01T00:00:00.500Z'),
});

/** Whether the answer of code that was shown these tokens is given, when none of them is there any more. */
async function isGiven(tokens: readonly SeenToken[], deleted: readonly TokenIdentity[]): Promise<boolean> {
  const code = new ProxyCode(
    {
      clock: manualClock(),
      async runCode({ onSeen, onDeleted }) {
        onSeen({ tokens, isComplete: true });
        onDeleted(deleted);
        return {};
      },
      guess: (_context, _isMiss, work) => work(),
      refuseSeen: async () => undefined,
      areThere: async (asked) => asked.length === 0,
      useNamed: async () => undefined,
    },
    {
      proxy,
      exchangeId: randomUUID(),
      tokenIds: [],
      taken: {},
      signal: new AbortController().signal,
      requireSendable: async () => undefined,
      requireActing: async () => undefined,
    },
    context,
  );
  await code.answer({ status: 200, headers: [], body: Readable.from([]) });
  return code.requireThereForAnswer(context).then(
    () => true,
    () => false,
  );
}

const [early, late] = ['2030-01-01T00:00:00.000Z', '2030-01-01T00:00:01.000Z'];
const shown = { applicationId: 'app', permission: 'token:read', transform: 'reveal' } as const;
const token = { id: 'tok', createdAt: early, shown };

describe('the answer of code that was shown a token which is gone', () => {
  it('is given only when the code has deleted that token itself', async () => {
    expect(await isGiven([token], [])).toBe(false);
    expect(await isGiven([token], [{ id: 'tok', createdAt: early }])).toBe(true);
    expect(await isGiven([token], [{ id: 'other', createdAt: early }])).toBe(false);
  });

  it('is withheld when the code has deleted another token of its id', async () => {
    const deleted = [{ id: 'tok', createdAt: late }];
    expect(await isGiven([token], deleted)).toBe(false);
    expect(await isGiven([token, { ...token, createdAt: late }], deleted)).toBe(false);
  });

  it('is given when the code has made that token, and withheld when it has made another one of its id', async () => {
    const made = { id: 'tok', createdAt: late };
    expect(await isGiven([made, { ...made, shown }], [])).toBe(true);
    expect(await isGiven([token, made], [])).toBe(false);
  });

  it('is withheld when the code was given that token as a duplicate of what it wrote', async () => {
    expect(await isGiven([token, { id: 'tok', createdAt: early }], [])).toBe(false);
  });

  it('is withheld when it is not known which token of the id it was', async () => {
    expect(await isGiven([{ id: 'tok', shown }], [{ id: 'tok', createdAt: early }])).toBe(false);
    expect(await isGiven([{ id: 'tok', shown }, { id: 'tok' }], [])).toBe(false);
  });
});
