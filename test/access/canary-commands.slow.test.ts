import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { searchFiles, tracesOf } from '../e2e/traces.ts';
import { Canaries } from './canary/canaries.ts';
import { byCommands, type Commanded } from './canary/commands.ts';
import { leaksIn } from './canary/leaks.ts';
import { openSinks } from './canary/sinks.ts';
import { openWorld, type World } from './canary/world.ts';

const flocks = { hidden: new Canaries('4'), open: new Canaries('5') };
let world: World;
let commanded: Commanded;

beforeAll(async () => {
  world = await openWorld();
  commanded = await byCommands(world, flocks);
}, 600_000);
afterAll(async () => {
  await world.close();
  await rm(commanded.directory, { recursive: true, force: true });
});

describe('a card number that is given to a command, or exported and imported', () => {
  it('is left in no table, log, metric or output of the vault', async () => {
    expect(leaksIn(await openSinks(world), flocks)).toEqual([]);
  });

  it('is quoted by a refused command only as the argument of the operator, and never as a key', () => {
    const quoted = commanded.given.flatMap(({ own, text }) => {
      const foreign = flocks.hidden
        .in(text)
        .filter(({ planted }) => planted !== own || own.place.includes('key_'));
      return foreign.length === 0 ? [] : [{ command: own.place, foreign, text }];
    });
    expect(quoted).toEqual([]);
    const done = commanded.given.filter(({ code }) => code === 0);
    // A position that is not reached yet.
    expect(done.map(({ own }) => own.place)).toEqual(['audit verify --from number']);
  });

  it('is in no output, file or backup of a command', async () => {
    expect(leaksIn(commanded.outputs, flocks)).toEqual([]);
    const traces = tracesOf(flocks.hidden.prefix);
    // The number that the test put there itself.
    expect(await searchFiles(commanded.directory, traces)).toEqual(['bad: joined by ""']);
    expect(await searchFiles(world.dataDir, traces)).toEqual([]);
  });

  it('has reached the other vault by the import', () => {
    const imports = [...commanded.outputs].filter(([name]) => name.includes('vault import'));
    expect(imports.map(([, text]) => /^imported: \d+$/m.exec(text)?.[0])).toEqual([
      'imported: 3',
      'imported: 0',
      'imported: 0',
    ]);
  });
});
