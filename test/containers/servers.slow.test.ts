import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  eventStoreImages,
  missingEngine,
  startEventStore,
  startKafkaBroker,
  startPostgres,
  type Server,
} from './engine.ts';

const missing = await missingEngine();
const suite = path.resolve(import.meta.dirname, '../real/main.ts');

const servers: readonly (readonly [string, () => Promise<Server>])[] = [
  ...eventStoreImages.map((image) => [image, () => startEventStore(image)] as const),
  ['Kafka 3.9 in KRaft mode', startKafkaBroker],
  ...[15, 16, 17, 18].map((version) => [`Postgres ${version}`, () => startPostgres(version)] as const),
];

describe.skipIf(missing)(`the suites of the stores${missing ? ` (skipped: ${missing})` : ''}`, () => {
  it.each(servers)('pass on %s, in a container', async (_name, start) => {
    const server = await start();
    onTestFinished(async () => void (await server.stop()));
    const env = { ...process.env, ...server.environment };
    const child = spawn(process.execPath, [...process.execArgv, suite], { env, stdio: 'inherit' });
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});
