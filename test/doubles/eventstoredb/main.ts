import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { startEventStoreDbDouble } from './double.ts';
import type { Faults } from './faults.ts';
import type { Recorded } from './log.ts';

// The double as a process of its own: `node test/doubles/eventstoredb/main.ts --port 2113`. Its log lives as long as
// the process. Each line on stdin is a command (`down`, `up`, `cut`, `freeze`, `thaw`, `drop`, `kill-batch`) or a
// JSON object of faults to set, or `alter TYPE FROM TO`, which changes the data of the first event of that type in place, as an attacker
// who has the disk, or `save FILE` and `load FILE`, which copy the log as an operator copies the files of the server;
// each is answered by a line on stdout. It ends with stdin or a signal.

// With `--while <directory>` it does not read stdin, and ends when that directory is gone.

const { values } = parseArgs({
  options: { port: { type: 'string', default: '0' }, while: { type: 'string' } },
});
const double = await startEventStoreDbDouble({ port: Number(values.port) });

const commands: Readonly<Record<string, () => unknown>> = {
  down: () => double.down(),
  up: () => double.up(),
  cut: () => double.cutConnections(),
  freeze: () => double.freeze(),
  thaw: () => double.thaw(),
  drop: () => double.dropSubscriptions(),
  'kill-batch': () => double.killBatch(),
};

function alter(type: string, from: string, to: string): void {
  const { log } = double;
  const textOf = (data: Uint8Array) => Buffer.from(data).toString();
  const place = log.events.findIndex((event) => event.type === type && textOf(event.data).includes(from));
  const found = log.events[place];
  if (!found) throw new Error(`no ${type} has ${from}`);
  const data = Buffer.from(textOf(found.data).replace(from, to));
  log.rewrite(log.events.with(place, { ...found, data }));
}

/** The bytes of an event are text. */
interface Texts {
  readonly data: string;
  readonly metadata: string;
}

async function save(file: string): Promise<void> {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
  const events = double.log.events.map((each) => ({
    ...each,
    data: text(each.data),
    metadata: text(each.metadata),
  }));
  await writeFile(file, JSON.stringify(events));
}

async function load(file: string): Promise<void> {
  const saved = JSON.parse(await readFile(file, 'utf8')) as (Omit<Recorded, 'data' | 'metadata'> & Texts)[];
  const events = saved.map((each) => ({
    ...each,
    data: Buffer.from(each.data),
    metadata: Buffer.from(each.metadata),
  }));
  double.log.rewrite(events);
}

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function obey(line: string): Promise<void> {
  const command = commands[line];
  const [verb, type = '', from = '', to = ''] = line.split(' ');
  if (command) await command();
  else if (verb === 'alter') alter(type, from, to);
  else if (verb === 'save') await save(type);
  else if (verb === 'load') await load(type);
  else Object.assign(double.faults, JSON.parse(line) as Partial<Faults>);
  say({ done: line });
}

say({ port: double.port, connectionString: double.connectionString });
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(0));
const { while: directory } = values;
if (directory === undefined) {
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    obey(line.trim()).catch((error: unknown) => say({ error: String(error) }));
  });
  lines.on('close', () => process.exit(0));
} else setInterval(() => existsSync(directory) || process.exit(0), 1_000);
