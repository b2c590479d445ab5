import type { Json } from '@token-vault/contracts';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { createFrameReader, encodeFrame } from '../src/sandbox/frames.ts';
import type { HostCalls } from '../src/sandbox/index.ts';
import { defaultSandboxLimits as limits } from '../src/sandbox/limits.ts';
import { ProtocolError, type FromChild } from '../src/sandbox/messages.ts';
import { createTestPool, handler, noRequests, type TestPool } from './sandbox-pool-fixture.ts';

const call: FromChild = {
  type: 'call',
  run: 1,
  call: 2,
  method: 'fetch',
  payload: '{"url":"é"}',
  body: Buffer.from('a\nb'),
};
const console = { lines: [], truncated: false };
const outcome: FromChild = {
  type: 'outcome',
  run: 1,
  outcome: { kind: 'succeeded', text: '{"raw":"ü\\n"}', console },
};

describe('frames of a child', () => {
  it('are read as they were written, for any division into chunks', () => {
    const bytes = Buffer.concat([call, outcome, { type: 'ready' } as const, call].flatMap(encodeFrame));
    for (const size of [1, 7, 64, bytes.length]) {
      const read: FromChild[] = [];
      const onChunk = createFrameReader(limits, (message) => read.push(message));
      for (let at = 0; at < bytes.length; at += size) onChunk(bytes.subarray(at, at + size));
      expect(read).toEqual([call, outcome, { type: 'ready' }, call]);
    }
  });

  it.each([
    [
      'a body of a request',
      { type: 'call', run: 1, call: 1, method: 'fetch', payload: '', bytes: limits.requestBytes + 1 },
    ],
    [
      'arguments',
      { type: 'call', run: 1, call: 1, method: 'svc.tokenize', payload: '', bytes: limits.argsBytes + 1 },
    ],
    ['a head', { type: 'call', run: 1, call: 1, method: 'fetch', payload: 'x'.repeat(65_537), bytes: 0 }],
    ['a result', { ...outcome, outcome: { kind: 'succeeded', console }, bytes: limits.resultBytes + 1 }],
    ['no number of bytes', { type: 'call', run: 1, call: 1, method: 'fetch', payload: '', bytes: '1' }],
  ])('that announce too much are refused before it comes: %s', (_what, envelope) => {
    const read = createFrameReader(limits, () => expect.unreachable());
    expect(() => read(Buffer.from(`${JSON.stringify(envelope)}\n`))).toThrow(ProtocolError);
  });

  it('with an envelope without end are refused before it is parsed', () => {
    const read = createFrameReader(limits, () => expect.unreachable());
    const chunk = Buffer.alloc(65_536, '[');
    const feed = () => {
      for (let count = 0; count < 1_600; count += 1) read(chunk);
    };
    expect(feed).toThrow(ProtocolError);
  });
});

describe('data that guest code makes', () => {
  let test: TestPool;
  let longest = 0;
  beforeAll(async () => {
    test = await createTestPool();
    await test.run(handler('return {};'));
  });
  afterAll(() => test.close());
  afterEach(() => vi.restoreAllMocks());

  /** Records the longest text that the service parses. */
  function watchParsing(): void {
    longest = 0;
    const parse = JSON.parse;
    vi.spyOn(JSON, 'parse').mockImplementation((text: string, reviver?: Parameters<typeof parse>[1]) => {
      longest = Math.max(longest, text.length);
      return parse(text, reviver) as unknown;
    });
  }

  it('is not parsed by the service when it is the body of a request', async () => {
    const seen: (number | undefined)[] = [];
    const hostCalls: HostCalls = {
      fetch: async ({ url, body }) => {
        seen.push(body?.length);
        return { status: 200, statusText: '', headers: [], body: new Uint8Array(), url, redirected: false };
      },
    };
    watchParsing();
    const code = handler(
      "const body = '['.repeat(300_000); await fetch('https://x.test', { method: 'POST', body }); return { raw: 1 };",
    );
    expect(await test.run(code, { hostCalls })).toMatchObject({ kind: 'succeeded' });
    expect(seen).toEqual([300_000]);
    expect(longest).toBeLessThan(100_000);
  });

  it.each([
    ['deep', 'let deep = []; for (let i = 0; i < 500; i++) deep = [deep]; await req.svc.tokenize(deep)'],
    ['of many values', 'await req.svc.tokenize(Array(210_000).fill(1))'],
    ['large', "await req.svc.tokenize('x'.repeat(3_000_000))"],
  ])('is counted by the child when it is an argument that is %s', async (_what, work) => {
    const calls: Json[] = [];
    const hostCalls: HostCalls = { ...noRequests, svc: async (_method, args) => calls.push(args) };
    watchParsing();
    const code = handler(`try { ${work}; } catch (error) { return { raw: error.code }; }`);
    const { kind, ...rest } = await test.run(code, { hostCalls });
    expect({ kind, calls, rest }).toMatchObject({ kind: 'succeeded', calls: [] });
    expect(['invalid-request', 'request-too-large']).toContain(
      (rest as { result: { raw: Json } }).result.raw,
    );
    expect(longest).toBeLessThan(1_000);
  });

  it('is limited in sum when it is a head of a request', async () => {
    const fetch: HostCalls['fetch'] = async ({ url }) => ({
      ...{ status: 200, statusText: '', headers: [], url: url.slice(0, 20), redirected: false },
      body: new Uint8Array(),
    });
    // The characters are escaped twice on their way.
    const code = (characters: number) =>
      handler(`for (let i = 0; i < 100; i++)
        await fetch('https://x.test', { headers: { x: '"'.repeat(${characters}) } }); return { raw: 1 };`);
    expect(await test.run(code(3_500), { hostCalls: { fetch } })).toMatchObject({ kind: 'succeeded' });
    expect(await test.run(code(15_000), { hostCalls: { fetch } })).toMatchObject({
      ...{ kind: 'limit-exceeded', limit: 'bytes of request heads' },
    });
  });

  it('is charged to the run while the service holds it', async () => {
    const small = await createTestPool({ limits: { requestBytesInFlight: 250_000 } });
    const code = handler(
      "const send = () => fetch('https://x.test', { method: 'POST', body: 'x'.repeat(100_000) }); await Promise.all([send(), send(), send()]);",
    );
    const outcome = await small.run(code);
    await small.close();
    expect(outcome).toMatchObject({ kind: 'limit-exceeded', limit: 'bytes of requests in flight' });
  });
});
