import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { startEventStoreDbDouble } from './double.ts';
import type { Faults } from './faults.ts';

// The double as a process of its own: `node test/doubles/eventstoredb/main.ts --port 2113`. Its log lives as long as it
// does. Each line on stdin is a command (`down`, `up`, `cut`, `freeze`, `thaw`, `drop`, `kill-batch`) or a JSON object of
// faults to set; each is answered by a line on stdout. It ends with stdin or a signal.

const { values } = parseArgs({ options: { port: { type: 'string', default: '0' } } });
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

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function obey(line: string): Promise<void> {
  const command = commands[line];
  if (command) await command();
  else Object.assign(double.faults, JSON.parse(line) as Partial<Faults>);
  say({ done: line });
}

say({ port: double.port, connectionString: double.connectionString });
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(0));
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  obey(line.trim()).catch((error: unknown) => say({ error: String(error) }));
});
lines.on('close', () => process.exit(0));
