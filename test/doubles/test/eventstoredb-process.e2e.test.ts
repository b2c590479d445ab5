import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { EventStoreDBClient, START, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import { describe, expect, it, onTestFinished } from 'vitest';

const main = path.join(import.meta.dirname, '../eventstoredb/main.ts');

describe('the double as a process', () => {
  it('prints its address, obeys faults and commands, keeps its log while it is stopped, and ends with its input', async () => {
    const child = spawn(process.execPath, [main], { stdio: ['pipe', 'pipe', 'inherit'] });
    onTestFinished(() => void child.kill());
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const read = async () => JSON.parse((await lines.next()).value as string) as Record<string, unknown>;
    const tell = (line: string) => (child.stdin.write(`${line}\n`), read());
    const { connectionString } = await read();
    const client = EventStoreDBClient.connectionString(String(connectionString));
    onTestFinished(() => client.dispose());
    await client.appendToStream('a', jsonEvent({ type: 'A', data: {} }), { expectedRevision: NO_STREAM });
    expect(await tell('{"appendDelayMs":1}')).toEqual({ done: '{"appendDelayMs":1}' });
    expect(await tell('nonsense')).toHaveProperty('error');
    expect(await tell('down')).toEqual({ done: 'down' });
    await expect(client.appendToStream('a', jsonEvent({ type: 'B', data: {} }))).rejects.toThrow();
    expect(await tell('up')).toEqual({ done: 'up' });
    const types: string[] = [];
    for await (const { event } of client.readStream('a', { fromRevision: START }))
      types.push(event?.type ?? '');
    expect(types).toEqual(['A']);
    child.stdin.end();
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});
