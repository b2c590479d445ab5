import express from 'express';
import type { IncomingMessage } from 'node:http';

/** `VAULT_TRUST_PROXY`: addresses, networks and names, comma-separated, or a number of hops; as in Express's `trust proxy`. */
export type TrustedProxies = string | number;

/** Whether what the peer says about its client is believed. `hop`: 0 for the peer of this process. */
export type TrustPeer = (address: string | undefined, hop: number) => boolean;

const forms =
  'a number of hops, or addresses, networks or the names loopback, linklocal and uniquelocal, separated by commas';

/** By Express' own compiler. @throws when the text cannot be read */
export const trustOf = (proxies: TrustedProxies): TrustPeer =>
  express().set('trust proxy', proxies).get('trust proxy fn') as TrustPeer;

/** The address of the client: the nearest one that no trusted peer has told, as `ip` of a request in Express. */
export function clientAddress({ headers, socket }: IncomingMessage, trusts: TrustPeer): string | undefined {
  const told = String(headers['x-forwarded-for'] ?? '')
    .split(',')
    .map((address) => address.trim());
  const addresses = [socket.remoteAddress, ...told.reverse().filter((address) => address !== '')];
  return addresses.find((address, hop) => !trusts(address, hop)) ?? addresses.at(-1);
}

/** Checked before anything is started. @throws RangeError naming the variable */
export function readTrustProxy(text: string | undefined): TrustedProxies | undefined {
  if (text === undefined || text === '') return undefined;
  if (/^\d{1,2}$/.test(text)) return Number(text);
  try {
    trustOf(text);
    return text;
  } catch (cause) {
    throw new RangeError(`VAULT_TRUST_PROXY must be ${forms}`, { cause });
  }
}
