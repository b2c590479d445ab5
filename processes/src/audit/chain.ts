import { hash } from 'node:crypto';
import type { LogRow } from './log-rows.ts';

/** SHA-256 over all that is stored of an event. No two different events give the same bytes. */
export function hashOf(row: LogRow): Buffer {
  const { position, revision, version, id, type, stream, data, metadata } = row;
  const head = JSON.stringify([position, stream, revision, version, id, type, data.length]);
  return hash('sha256', `${head}\n${data}\n${metadata}`, 'buffer');
}

const digestLength = 8;

/** Of an event's hash: enough to tell events of one stretch apart. What is signed beside it is the whole chain. */
export const digestOf = (eventHash: Buffer): string => eventHash.toString('base64url', 0, digestLength);

export function joinDigests(digests: readonly string[]): string {
  return Buffer.concat(digests.map((each) => Buffer.from(each, 'base64url'))).toString('base64url');
}

export function splitDigests(joined: string): string[] {
  const bytes = Buffer.from(joined, 'base64url');
  const count = Math.ceil(bytes.length / digestLength);
  return Array.from({ length: count }, (_, index) =>
    bytes.toString('base64url', index * digestLength, (index + 1) * digestLength),
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

export function extendChain(state: ChainState, eventHashes: readonly Buffer[]): ChainState {
  let { head } = state;
  for (const each of eventHashes) head = hash('sha256', Buffer.concat([head, each]), 'buffer');
  return { count: state.count + eventHashes.length, head };
}
