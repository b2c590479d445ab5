import { hash } from 'node:crypto';
import type { StoredEvent } from '@token-vault/event-store';

/** 32 bytes as a `latin1` text, one character for each: millions of small buffers would cost more than their hashes. */
export type EventHash = string;

/**
 * SHA-256 over all fields of an event in the port of the event store, so it is the same on every adapter. Two different events never give
 * the same bytes.
 */
export const hashOf = (row: StoredEvent): EventHash => hash('sha256', contentOf(row), 'binary');

export const hexHashOf = (row: StoredEvent): string => hash('sha256', contentOf(row), 'hex');

function contentOf(row: StoredEvent): string {
  const { position, revision, version, id, type, stream, data, metadata } = row;
  const head = JSON.stringify([position, stream, revision, version, id, type, data.length]);
  return `${head}\n${data}\n${metadata}`;
}

const hashLength = 32;
const digestLength = 8;

/** The first bytes of an event's hash: enough to distinguish the events of one stretch. The hash of the whole chain is signed too. */
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

/** The position of a tenant's chain. */
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
