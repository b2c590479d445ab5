import { hash } from 'node:crypto';
import type { LogRow } from './log-rows.ts';

/** 32 bytes, one a character (`latin1`): millions of small buffers would cost more than their hashes. */
export type EventHash = string;

/** SHA-256 over all that is stored of an event. No two different events give the same bytes. */
export const hashOf = (row: LogRow): EventHash => hash('sha256', contentOf(row), 'binary');

export const hexHashOf = (row: LogRow): string => hash('sha256', contentOf(row), 'hex');

function contentOf(row: LogRow): string {
  const { position, revision, version, id, type, stream, data, metadata } = row;
  const head = JSON.stringify([position, stream, revision, version, id, type, data.length]);
  return `${head}\n${data}\n${metadata}`;
}

const hashLength = 32;
const digestLength = 8;

/** Of an event's hash: enough to tell events of one stretch apart. What is signed beside it is the whole chain. */
export const digestOf = (eventHash: EventHash): string => eventHash.slice(0, digestLength);

export const joinDigests = (digests: readonly string[]): string =>
  Buffer.from(digests.join(''), 'latin1').toString('base64url');

export function splitDigests(joined: string): string[] {
  const bytes = Buffer.from(joined, 'base64url');
  const count = Math.ceil(bytes.length / digestLength);
  return Array.from({ length: count }, (_, index) =>
    bytes.toString('latin1', index * digestLength, (index + 1) * digestLength),
  );
}

/** How far the chain of a tenant is. */
export interface ChainState {
  readonly count: number;
  readonly head: Buffer;
}

export function startOfChain(tenantId: string): ChainState {
  return { count: 0, head: hash('sha256', `token-vault audit chain 1 ${tenantId}`, 'buffer') };
}

export function extendChain(state: ChainState, eventHashes: readonly EventHash[]): ChainState {
  let { head } = state;
  const link = Buffer.alloc(2 * hashLength);
  for (const each of eventHashes) {
    head.copy(link);
    link.write(each, hashLength, 'latin1');
    head = hash('sha256', link, 'buffer');
  }
  return { count: state.count + eventHashes.length, head };
}
