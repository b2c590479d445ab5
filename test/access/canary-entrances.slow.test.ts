import { operations } from '@token-vault/contracts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { searchFiles, tracesOf } from '../e2e/traces.ts';
import { Canaries } from './canary/canaries.ts';
import { type Answered, byReactorCode, overHttp, svcMethods } from './canary/journey.ts';
import { allowedInVain, leaksIn, quotesIn } from './canary/leaks.ts';
import { operationsWith, RefusedByState } from './canary/by-state.ts';
import { byOutcomes } from './canary/outcomes.ts';
import { plans } from './canary/plans/index.ts';
import { openSinks, type Sinks } from './canary/sinks.ts';
import { openWorld, availableSvcMethods, type World } from './canary/world.ts';

const flocks = { hidden: new Canaries('4'), open: new Canaries('5') };
let world: World;
let answered: Answered[];
let refused: Answered[];
let sinks: Sinks;

beforeAll(async () => {
  world = await openWorld();
  answered = await overHttp(world, flocks);
  await byReactorCode(world, flocks);
  await byOutcomes(world, flocks);
  refused = await new RefusedByState(world, flocks).all();
  sinks = await openSinks(world);
}, 300_000);
afterAll(() => world.close());

describe('a card number at any place of any operation', () => {
  it('is sent by every operation and every method of req.svc', async () => {
    expect(Object.keys(plans).sort()).toEqual(Object.keys(operations).sort());
    expect([...svcMethods].sort()).toEqual((await availableSvcMethods(world)).sort());
    const succeeded = new Set(
      answered.filter(({ status }) => status < 300).map(({ operation }) => operation),
    );
    // deleteTenant is left out: it would end the tenant whose log is read.
    succeeded.add('deleteTenant');
    // They need the cookie of the console, and requests here have a key: see test/e2e/console-sessions.e2e.test.ts.
    for (const id of ['getConsoleSession', 'endConsoleSession']) succeeded.add(id);
    expect([...succeeded].sort()).toEqual(Object.keys(operations).sort());
  });

  it('is sent in requests that are refused for the state of the vault: 409, 429 and 503', () => {
    expect(operationsWith(refused, 409)).toEqual([
      'createToken',
      'updateToken',
      'deleteToken',
      'commitTransaction',
      'rollbackTransaction',
      'authorizeSession',
    ]);
    expect(operationsWith(refused, 429)).toEqual(['searchTokens', 'createToken']);
    expect(operationsWith(refused, 503)).toEqual(['getToken', 'listTokens', 'searchTokens']);
  });

  it('is in no table, log, metric, trace or output but where the interface stores it in plain', () => {
    expect(leaksIn(sinks, flocks)).toEqual([]);
  });

  it('is found where the interface stores it in plain', () => {
    expect(allowedInVain(sinks, flocks)).toEqual([]);
  });

  it('is not in the statistics of the planner in sealed form either: there it would outlive its deletion', () => {
    const sealed = /sv1\.[\da-f-]{36}\./;
    const tables = [...sinks].filter(([, rows]) => sealed.test(rows)).map(([name]) => name);
    const ofAnswers = ['rm_proxies.proxy', 'rm_reactors.reactor', 'rm_tenants.tenant', 'rm_tokens.token'];
    expect(tables).toEqual(expect.arrayContaining(['idempotency.answer', ...ofAnswers]));
    expect(sinks.get('pg_catalog.pg_statistic')).toContain('\n');
    expect(tables.filter((name) => name.startsWith('pg_catalog.'))).toEqual([]);
  });

  it('is in no error of another caller, and quoted only as a path, a name or a token that is not there', () => {
    expect(quotesIn([...answered, ...refused], flocks)).toEqual([]);
  });

  it('is in no file of the data directory, running and stopped', async () => {
    const traces = tracesOf(flocks.hidden.prefix);
    expect(await searchFiles(world.dataDir, traces)).toEqual([]);
    await world.vault.stop();
    expect(await searchFiles(world.dataDir, traces)).toEqual([]);
    expect((await searchFiles(world.dataDir, tracesOf(flocks.open.prefix))).join()).toMatch(
      /base\/\w+\/\w+: joined/,
    );
    expect(flocks.hidden.in(world.vault.output())).toEqual([]);
  });
});
