import { UnavailableError } from '@token-vault/contracts';
import type { Pool } from 'pg';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createFairReads } from '../src/fair-reads.ts';

let running: { readonly text: string; readonly end: (error?: Error) => void }[];
const started = () => running.map(({ text }) => text);
const statementOf = (text: string) => ({ text });

function slowPool(max: number): Pool {
  const query = (statement: { text: string }) =>
    new Promise((resolve, reject) => {
      const end = (error?: Error) => {
        if (error) reject(error);
        else resolve({ rows: [statement.text] });
      };
      running.push({ text: statement.text, end });
    });
  return { options: { max }, query } as unknown as Pool;
}

const turn = () => vi.waitFor(() => Promise.resolve());
beforeEach(() => {
  running = [];
});

describe('the lists of tenants', () => {
  it('have at most half of the connections for one tenant, and leave two free for look-ups', async () => {
    const reads = createFairReads(slowPool(6));
    for (let index = 0; index < 10; index += 1) void reads.of('greedy').query(statementOf('greedy'));
    await turn();
    expect(started()).toHaveLength(3);
    for (let index = 0; index < 10; index += 1) void reads.of('other').query(statementOf('other'));
    await turn();
    expect(started()).toEqual(['greedy', 'greedy', 'greedy', 'other']);
  });

  it('are read in turns of the tenants, for any number of waiting lists of one tenant', async () => {
    const reads = createFairReads(slowPool(6));
    for (let index = 0; index < 50; index += 1) void reads.of('greedy').query(statementOf('greedy'));
    const others = ['second', 'third', 'fourth'];
    for (const name of others) void reads.of(name).query(statementOf(name));
    await turn();
    running[0]?.end();
    running[1]?.end();
    running[2]?.end();
    await vi.waitFor(() => expect(started()).toHaveLength(7));
    expect(started()).toEqual(expect.arrayContaining(others));
  });

  it('return a place when a statement fails', async () => {
    const reads = createFairReads(slowPool(1));
    const failing = reads.of('one').query(statementOf('first'));
    const next = reads.of('one').query(statementOf('second'));
    await turn();
    running[0]?.end(new Error('gone'));
    await expect(failing).rejects.toThrow('gone');
    await vi.waitFor(() => expect(started()).toEqual(['first', 'second']));
    running[1]?.end();
    await expect(next).resolves.toEqual({ rows: ['second'] });
  });

  it('are refused when too many of the tenant wait, and those of others are not', async () => {
    const reads = createFairReads(slowPool(2), { waitingOfTenant: 1 });
    void reads.of('greedy').query(statementOf('runs'));
    const waits = reads.of('greedy').query(statementOf('waits'));
    await expect(reads.of('greedy').query(statementOf('refused'))).rejects.toThrow(UnavailableError);
    void reads.of('other').query(statementOf('other'));
    running[0]?.end();
    await vi.waitFor(() => expect(started()).toHaveLength(2));
    running[1]?.end();
    await expect(waits).resolves.toEqual({ rows: ['waits'] });
  });

  it('are refused when they have waited too long, and then never run', async () => {
    const reads = createFairReads(slowPool(1), { waitMs: 1 });
    void reads.of('one').query(statementOf('runs'));
    await expect(reads.of('one').query(statementOf('late'))).rejects.toThrow(/Too many/);
    running[0]?.end();
    await turn();
    expect(started()).toEqual(['runs']);
  });
});
