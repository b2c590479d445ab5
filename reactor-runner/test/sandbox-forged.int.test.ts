import { existsSync } from 'node:fs';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Execution } from '../src/sandbox/execution.ts';
import type { HostCalls } from '../src/sandbox/index.ts';
import { defaultSandboxLimits as limits } from '../src/sandbox/limits.ts';
import { SandboxChild } from '../src/sandbox/sandbox-child.ts';
import { noRequests } from './sandbox-pool-fixture.ts';

const perl = '/usr/bin/perl';
const start = "open(my $s, '+<&=3'); sub pause { select(undef, undef, undef, shift) }";
const ready = `syswrite($s, qq({"type":"ready"}\n));`;

let ends: (() => void)[] = [];
afterEach(() => {
  ends.forEach((end) => end());
  ends = [];
  vi.restoreAllMocks();
});

/** Runs an attacker's program in the place of a child, with a run in it. */
async function runIn(code: string, hostCalls: HostCalls = noRequests) {
  const seen = { isReady: false, hasExited: false, outcome: undefined as string | undefined };
  const running: { execution?: Execution } = {};
  const command = {
    file: perl,
    args: ['-e', `${start} ${ready} ${code}`],
    isAlone: false,
    filter: undefined,
  };
  const child = new SandboxChild(command, { core: '', modules: {} } as never, limits, {
    onReady: () => (seen.isReady = true),
    onMessage: (message) => void running.execution?.onMessage(message),
    onExit: (signal) => {
      seen.hasExited = true;
      running.execution?.onExit(signal);
    },
  });
  ends.push(() => child.kill());
  await waitUntil(() => seen.isReady);
  running.execution = new Execution(
    child,
    {
      number: 1,
      tenantId: 'tenant',
      purpose: 'run',
      code: '',
      input: '{}',
      timeoutMs: 60_000,
      hostCalls,
      caller: 'app',
      queuedAt: 0,
      settle: ({ kind }) => (seen.outcome = kind),
    },
    limits,
  );
  return seen;
}

describe.runIf(existsSync(perl))('a child that an attacker has taken over', () => {
  it('is ended when it sends requests and reads no answers', async () => {
    let requests = 0;
    const fetch: HostCalls['fetch'] = async ({ url }) => {
      requests += 1;
      const body = new Uint8Array(1_000_000);
      return { status: 200, statusText: '', headers: [], body, url, redirected: false };
    };
    const payload = JSON.stringify(JSON.stringify({ url: 'https://x.test', method: 'GET', headers: [] }));
    const call = `{"type":"call","run":1,"call":$n,"method":"fetch","payload":${payload.replaceAll('\\', '\\\\')},"bytes":0}`;
    const seen = await runIn(
      `pause(0.3); for my $n (1 .. 100) { syswrite($s, qq(${call}\\n)); pause(0.02); } sleep 60;`,
      { fetch },
    );
    await waitUntil(() => seen.hasExited);
    expect(seen.outcome).toBe('killed');
    expect(requests).toBeGreaterThan(0);
    expect(requests).toBeLessThanOrEqual(limits.requestsInFlight);
  });

  it('is ended when it writes byte by byte', async () => {
    const seen = await runIn("pause(0.3); for (1 .. 20_000) { syswrite($s, ' '); pause(0.0003); } sleep 60;");
    await waitUntil(() => seen.hasExited);
    expect(seen.outcome).toBe('killed');
  });

  /** Counts the characters that the service parses from now on. */
  function watchParsing(): () => number {
    let parsed = 0;
    const parse = JSON.parse;
    vi.spyOn(JSON, 'parse').mockImplementation((text: string, reviver?: Parameters<typeof parse>[1]) => {
      parsed += text.length;
      return parse(text, reviver) as unknown;
    });
    return () => parsed;
  }
  const envelopes = limits.requestHeadsBytes + 1_048_576;
  const junk = "'[],' x 143_000 . '[]'";
  const padding = "' ' x 429_000";

  it.each([
    ['fields that no envelope has', `'{"type":"abort","run":1,"call":1,"x":[' . ${junk} . ']}'`, 500_000],
    [
      'lines of a console',
      `'{"type":"outcome","run":9,"outcome":{"kind":"killed","console":{"lines":[{"level":"log","text":"","x":[' . ${junk} . ']}]}}}'`,
      500_000,
    ],
    ['spaces', `'{"type":"abort","run":1,"call":1' . ${padding} . '}'`, envelopes],
    [
      'outcomes of another run',
      `'{"type":"outcome","run":9,"outcome":{"kind":"killed","console":{"lines":[]' . ${padding} . '}}}'`,
      envelopes,
    ],
  ])('is ended when its envelopes are full of %s, before much is parsed', async (_what, envelope, most) => {
    const parsed = watchParsing();
    const seen = await runIn(
      `pause(0.3); my $junk = ${envelope} . qq(\n); for (1 .. 601) { syswrite($s, $junk); } sleep 60;`,
    );
    await waitUntil(() => seen.hasExited, { timeoutMs: 20_000 });
    expect(seen.outcome).toBe('killed');
    expect(parsed()).toBeLessThanOrEqual(most);
  });
});
