import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { startEventStoreDbDouble } from './double.ts';
import type { Faults } from './faults.ts';
import { readEvents, writeEvents } from './files.ts';

// The double as a process of its own: `node test/doubles/eventstoredb/main.ts --port 2113`. Its log lives as long as
// the process. Each line on stdin is a command (`down`, `up`, `cut`, `freeze`, `thaw`, `drop`, `kill-batch`) or a
// JSON object of faults to set, or `alter TYPE FROM TO`, which changes the data of the first event of that type in place, as an attacker
// who has the disk, or `save FILE` and `load FILE`, which copy the log as an operator copies the files of the server, or `foreign COUNT`, which
// writes events of another application; each is answered by a line on stdout. It ends with stdin or a signal.

// With `--directory <directory>` it keeps its log there, does not read stdin, and ends when that directory is gone.

const { values } = parseArgs({
  options: { port: { type: 'string', default: '0' }, directory: { type: 'string' } },
});
const { port, directory } = values;
const double = await startEventStoreDbDouble({ port: Number(port), directory });

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

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function obey(line: string): Promise<void> {
  const command = commands[line];
  const [verb, type = '', from = '', to = ''] = line.split(' ');
  if (command) await command();
  else if (verb === 'alter') alter(type, from, to);
  else if (verb === 'save') writeEvents(type, double.log.events);
  else if (verb === 'load') double.log.rewrite(readEvents(type));
  else if (verb === 'foreign') double.writeForeignEvents(Number(type));
  else Object.assign(double.faults, JSON.parse(line) as Partial<Faults>);
  say({ done: line });
}

say({ port: double.port, connectionString: double.connectionString });
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(0));
if (directory === undefined) {
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    obey(line.trim()).catch((error: unknown) => say({ error: String(error) }));
  });
  lines.on('close', () => process.exit(0));
} else setInterval(() => existsSync(directory) || process.exit(0), 1_000);
