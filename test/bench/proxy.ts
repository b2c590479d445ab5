// Requests through the proxy, with the number of a card for a destination on the same machine, and the same requests straight to it.
import { readFileSync } from 'node:fs';
import { startDestination, type Destination } from '../e2e/destination.ts';
import type { Job } from './job.ts';
import type { Server } from './server.ts';

/** An HTTPS server of this process, which waits for the generator meanwhile. */
export async function openDestination(): Promise<Destination> {
  const destination = await startDestination();
  destination.answer = (_request, response) => {
    destination.arrived.length = 0;
    response.end('{"id":"ch_1"}');
  };
  return destination;
}

/** A vault that may send requests to the server. */
export const environmentFor = ({ caFile }: Destination): NodeJS.ProcessEnv => ({
  NODE_EXTRA_CA_CERTS: caFile,
  VAULT_EGRESS_ALLOW: '127.0.0.1/32',
});

type Case = readonly [name: string, job: Omit<Job, 'seconds'>];

/** @returns the URL that requests are sent to */
export async function allowDestination(server: Server, { url }: Destination): Promise<string> {
  const body = JSON.stringify({ name: 'bench', settings: { proxy_destinations: url } });
  const headers = { 'SVC-API-KEY': server.managementKey, 'Content-Type': 'application/json' };
  const answer = await fetch(`${server.url}/tenants/self`, { method: 'PUT', headers, body });
  if (!answer.ok) throw new Error(`the destination was not allowed: ${answer.status}`);
  return `${url}/v1/charges`;
}

/** The first two differ by what the proxy adds. */
export async function proxyCases(
  server: Server,
  to: Destination,
  { key, ids }: Pick<Job, 'key' | 'ids'>,
): Promise<readonly Case[]> {
  const destination = await allowDestination(server, to);
  const { url, caFile } = to;
  const job = { kind: 'proxy', key, ids, destination } as const;
  const straight = { ...job, port: Number(new URL(url).port), ca: readFileSync(caFile, 'utf8') };
  return [
    ['straight to the destination, 1 connection', { ...straight, connections: 1 }],
    ['proxy with one card, 1 connection', { ...job, port: server.port, connections: 1 }],
    ['proxy with one card, 64 connections', { ...job, port: server.port, connections: 64 }],
  ];
}
