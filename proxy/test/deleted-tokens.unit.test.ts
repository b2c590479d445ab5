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

/** The code of a proxy that was shown these tokens, and deleted some. None of them is there any more. */
async function codeOf(tokens: readonly SeenToken[], deleted: readonly TokenIdentity[]): Promise<ProxyCode> {
  const code = new ProxyCode(
    {
      clock: manualClock(),
      async runCode({ onSeen, onDeleted }) {
        onSeen({ tokens, isComplete: true });
        onDeleted(deleted);
        return {};
      },
      guess: (_context, _isMiss, work) => work(),
      decisionOnSeen: async () => async () => ({ refusal: undefined }),
      areThere: async (asked) => asked.length === 0,
      useNamed: async () => undefined,
    },
    {
      proxy,
      exchangeId: randomUUID(),
      tokenIds: [],
      cvcEndsAt: undefined,
      signal: new AbortController().signal,
      requireSendable: async () => undefined,
      requireActing: async () => undefined,
    },
    context,
  );
  await code.answer({ status: 200, headers: [], body: Readable.from([]) });
  return code;
}

const isDone = (work: Promise<void>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

/** Whether the answer of the code is given. */
const isGiven = async (...code: Parameters<typeof codeOf>): Promise<boolean> =>
  isDone((await codeOf(...code)).requireThereForAnswer(context));
/** Whether the request that the code made leaves. */
const isSent = async (...code: Parameters<typeof codeOf>): Promise<boolean> =>
  isDone((await codeOf(...code)).requireThere(context));

const [early, late] = ['2030-01-01T00:00:00.000Z', '2030-01-01T00:00:01.000Z'];
const shown = { applicationId: 'app', permission: 'token:read', transform: 'reveal' } as const;
const token = { id: 'tok', createdAt: early, shown };
const made = { id: 'tok', createdAt: late };

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
    expect(await isGiven([made], [])).toBe(true);
    expect(await isGiven([{ ...made, shown: { ...shown, permission: 'token:create' } }], [])).toBe(true);
    expect(await isGiven([token, made], [])).toBe(false);
  });

  it('is withheld when the code has made that token and read it later, but given when the code has deleted it', async () => {
    expect(await isGiven([made, { ...made, shown }], [])).toBe(false);
    expect(await isGiven([made, { ...made, shown }], [made])).toBe(true);
  });

  it('is withheld when the code was given that token as a duplicate of what it wrote', async () => {
    expect(await isGiven([token, { id: 'tok', createdAt: early }], [])).toBe(false);
  });

  it('is withheld when it is not known which token of the id it was', async () => {
    expect(await isGiven([{ id: 'tok', shown }], [{ id: 'tok', createdAt: early }])).toBe(false);
    expect(await isGiven([{ id: 'tok', shown }, { id: 'tok' }], [])).toBe(false);
  });
});

describe('the request of code that was shown a token which is gone', () => {
  it('leaves only when the code has made that token, and has not read it or has deleted it', async () => {
    expect(await isSent([token], [])).toBe(false);
    expect(await isSent([token], [{ id: 'tok', createdAt: early }])).toBe(false);
    expect(await isSent([made], [])).toBe(true);
    expect(await isSent([made, { ...made, shown }], [])).toBe(false);
    expect(await isSent([made, { ...made, shown }], [made])).toBe(true);
  });
});
