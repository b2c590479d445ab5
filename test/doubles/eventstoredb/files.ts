import { existsSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { EventLog, Recorded } from './log.ts';

/** An event in a file: its bytes are text. */
type Written = Omit<Recorded, 'data' | 'metadata'> & { readonly data: string; readonly metadata: string };

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

const lineOf = (events: readonly Recorded[]): string =>
  `${JSON.stringify(
    events.map((each): Written => ({ ...each, data: text(each.data), metadata: text(each.metadata) })),
  )}\n`;

export const writeEvents = (file: string, events: readonly Recorded[]): void =>
  writeFileSync(file, lineOf(events));

export const readEvents = (file: string): readonly Recorded[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    // After the last line end there is nothing, or half an append of a process that was killed.
    .slice(0, -1)
    .flatMap((line) => JSON.parse(line) as Written[])
    .map((each) => ({ ...each, data: Buffer.from(each.data), metadata: Buffer.from(each.metadata) }));

/**
 * Gives the log the events in the file, and keeps it there from now on, an append a line: each is written before it is answered. The disk is
 * not waited for. So a process that is killed loses nothing.
 */
export function keepIn(directory: string, log: EventLog): void {
  const file = path.join(directory, 'events');
  log.rewrite(existsSync(file) ? readEvents(file) : []);
  writeEvents(file, log.events);
  const descriptor = openSync(file, 'a');
  log.onStored = (events) => void writeSync(descriptor, lineOf(events));
}
