import type { EventLog } from './log.ts';

const encode = (data: unknown) => new TextEncoder().encode(JSON.stringify(data));

function write(log: EventLog, stream: string, type: string, data: readonly unknown[]): void {
  const events = data.map((each) => ({
    id: crypto.randomUUID(),
    type,
    contentType: 'application/json',
    data: encode(each),
    metadata: new Uint8Array(),
  }));
  log.append(stream, 'any', events);
}

/** Writes the events that release 24.10 writes at its first start, so the log of a new server is not empty. With accounts, also those of its own two. */
export function writeFirstEvents(log: EventLog, hasAccounts: boolean): void {
  write(log, '$$$scavenges', '$metadata', [{ $maxCount: 1 }]);
  for (const name of hasAccounts ? ['admin', 'ops'] : []) {
    write(log, `$$$user-${name}`, '$metadata', [{ $acl: { $w: '$admins', $d: '$admins', $mw: '$admins' } }]);
    write(log, `$user-${name}`, '$UserCreated', [{ loginName: name, groups: [`$${name}s`] }]);
    write(log, '$users', '$User', [name]);
  }
}

export const writeSystemEvents = (log: EventLog, count: number) =>
  write(log, '$stats-127.0.0.1:2113', '$statsCollected', Array(count).fill({}));

export const writeForeignEvents = (log: EventLog, count: number) =>
  write(log, 'orders-1', 'OrderPlaced', Array(count).fill({ order: 1 }));
