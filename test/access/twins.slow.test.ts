import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AuditCheckpointSigned, type Token } from '@token-vault/contracts';
import { resultOf, runCommand } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { makeTenant, type OtherTenant } from '../world/tenants.ts';
import { makeApplicationBy, makeReactorBy, useVault } from '../world/vault.ts';
import type { Asked } from './asked.ts';
import { card, hiddenOf, type Hidden } from './hidden.ts';
import { createLeveller } from './leveller.ts';
import { revealingPatches } from './patches.ts';
import { permissions, rule, type Rights } from './rights.ts';
import { runningEntrances } from './running-entrances.ts';

/** Two tenants of one running vault that differ in hidden data only. */
interface Twin extends OtherTenant {
  readonly hidden: Hidden;
}

const container = '/a/';
const [guessed] = hiddenOf;

const receiver = useReceiver(beforeAll);
const vault = useVault();
let folder: string;
let twins: readonly Twin[];

const use = rule({ container: '/elsewhere/', priority: 8, transform: 'reveal', permissions: ['token:use'] });
const all = [...permissions];
/** No caller sees a token of the container in plaintext. */
const callers: Readonly<Record<string, Rights>> = {
  'plain permissions': { permissions: all, rules: [use] },
  'a rule that masks': { permissions: [], rules: [rule({ container: '/' }), use] },
  'a rule that redacts': { permissions: [], rules: [rule({ container: '/', transform: 'redact' }), use] },
  'a rule that reveals elsewhere': {
    permissions: all,
    rules: [rule({ container: '/open/', transform: 'reveal' }), use],
  },
};

/** Makes a token of each state, with equal ids in both twins. */
async function fill({ author: { client: author }, hidden }: Twin, cell: string): Promise<void> {
  const create = (id: string, more: object = {}, headers: Record<string, string> = {}) =>
    author.expect<Token>(201, 'POST', '/tokens', {
      headers,
      body: {
        id: `${id}-${cell}`,
        type: 'card',
        data: card(hidden.number, hidden.cvc),
        containers: [container],
        ...more,
      },
    });
  for (const id of ['live', 'deleted', 'enlisted']) await create(id);
  await author.expect(204, 'DELETE', `/tokens/deleted-${cell}`);
  const opened = await author.expect<{ id: string }>(201, 'POST', '/transactions');
  const headers = { 'SVC-TRANSACTION-ID': opened.body.id };
  await create('uncommitted', {}, headers);
  await author.expect(200, 'PATCH', `/tokens/enlisted-${cell}`, { headers, body: { metadata: { k: 'v' } } });
}

const states = ['live', 'enlisted', 'uncommitted', 'deleted', 'never'];

function asksOf(cell: string, echo: string): Asked[] {
  const search = (query: string): Asked => ({ operation: 'searchTokens', body: { query, size: 5 } });
  const create = (body: object): Asked => ({
    operation: 'createToken',
    body: { type: 'card', data: { number: guessed.number }, containers: [container], ...body },
  });
  const use = (id: string, expression: string): Asked => ({
    operation: 'react',
    params: { id: echo },
    body: { args: { x: expression.replace('ID', id) } },
  });
  const aboutEach = states.flatMap((state): Asked[] => {
    const params = { id: `${state}-${cell}` };
    return [
      { operation: 'getToken', params },
      ...revealingPatches.map((body): Asked => ({ operation: 'updateToken', params, body })),
      use(params.id, '{{ ID }}'),
      use(params.id, "{{ token: ID | json: '$.data.number' }}"),
    ];
  });
  return [
    { operation: 'listTokens', query: { size: '5' } },
    search('type:card'),
    search(`data:${guessed.number}`),
    search(`NOT data:${guessed.number}`),
    ...aboutEach,
    create({ id: `live-${cell}` }),
    create({ deduplicate_token: true }),
    { operation: 'tokenize', body: [{ type: 'token', data: guessed.number, containers: [container] }] },
    { operation: 'detokenize', body: states.map((state) => `{{ ${state}-${cell} }}`) },
    { operation: 'detokenize', body: states.map((state) => `{{ token: ${state}-${cell} }}`) },
    {
      operation: 'createTokens',
      body: { tokens: [create({}).body, create({ deduplicate_token: true }).body] },
    },
    {
      operation: 'deleteTokens',
      body: { ids: ['uncommitted', 'deleted', 'never'].map((state) => `${state}-${cell}`) },
    },
    { operation: 'deleteToken', params: { id: `live-${cell}` } },
    { operation: 'deleteToken', params: { id: `enlisted-${cell}` } },
  ];
}

const entrances = runningEntrances(vault, receiver);

const time = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;
const withoutTimes = (told: unknown): unknown => JSON.parse(JSON.stringify(told).replaceAll(time, '<time>'));

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'twins-'));
  twins = await Promise.all(hiddenOf.map(async (hidden) => ({ ...(await makeTenant(vault)), hidden })));
  await resultOf(vault.process().dataDir, 'transfer', 'keygen', path.join(folder, 'key'));
}, 180_000);
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

const cells = Object.keys(entrances).flatMap((entrance) =>
  Object.keys(callers).map((caller, index) => ({ entrance, caller, cell: `${entrance.length}-${index}` })),
);

/** The answers of both twins are equal and hold no hidden data, except a guess that the caller sent itself. */
function expectAlike(told: readonly unknown[]): void {
  const [one, other] = told.map((each) => createLeveller()(withoutTimes(each)));
  expect(other).toEqual(one);
  expect(JSON.stringify(told[1])).not.toContain(hiddenOf[1].number);
}

describe('two tenants that differ in hidden data give a caller the same answers', () => {
  it.each(cells)(
    'by $entrance with $caller',
    async ({ entrance, caller, cell }) => {
      const told = await Promise.all(
        twins.map(async (twin) => {
          await fill(twin, cell);
          const made = await makeApplicationBy(
            twin.manager,
            callers[caller] ?? { permissions: [], rules: [] },
          );
          const echo = await makeReactorBy(
            twin.manager,
            'module.exports = async (req) => ({ raw: req.args })',
          );
          return (await entrances[entrance]?.(twin, made, asksOf(cell, echo))) ?? [];
        }),
      );
      expect(told[0]?.length).toBeGreaterThan(40);
      expectAlike(told);
    },
    120_000,
  );

  it.each(['a rule that masks', 'a rule that reveals elsewhere'])(
    'by the command line that exports, with %s',
    async (caller) => {
      const told = await Promise.all(
        twins.map(async (twin) => {
          const { id } = await makeApplicationBy(
            twin.manager,
            callers[caller] ?? { permissions: [], rules: [] },
          );
          const to = path.join(folder, randomUUID());
          const flags = ['--recipient', path.join(folder, 'key.pub'), '--application', id, '--to', to];
          const ended = await runCommand(vault.process().dataDir, ['export', twin.id, ...flags]);
          return JSON.parse(JSON.stringify(ended).replaceAll(to, '<file>')) as unknown;
        }),
      );
      expectAlike(told);
    },
    120_000,
  );

  it('by the command line that exports the log', async () => {
    const told = await Promise.all(
      twins.map(({ id }) => resultOf(vault.process().dataDir, 'audit', 'export', '--tenant', id)),
    );
    // The hidden data of the other twin is in the code that guesses it.
    expect(told[1]?.includes(hiddenOf[1].number)).toBe(false);
    expect(countsOf(told[1] ?? '')).toEqual(countsOf(told[0] ?? ''));
  }, 120_000);
});

/** The number of events of each type, except of checkpoints, which the clock makes. */
function countsOf(exported: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const line of exported.trim().split('\n')) {
    const { type } = JSON.parse(line) as { type?: string };
    if (type !== undefined && type !== AuditCheckpointSigned.type) counts[type] = (counts[type] ?? 0) + 1;
  }
  return counts;
}
