import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { makeCaller, publicCaller, repeat, type Attack, type Place, type Strike } from './attack.ts';

/** The size of the request, and so of each answer that the attacker does not read. */
const mebibyte = 1024 * 1024;
/** The names of this many fields just fit into a body. */
const many = 80_000;

/** A request by a public key whose body has this many entries where the contract has few. */
const oversized = (body: object) => async (place: Place) =>
  repeat(await makeCaller(place, publicCaller), 'POST', '/tokens', { type: 'token', data: 'x', ...body });

const entries = (name: (index: number) => string) =>
  Object.fromEntries(Array.from({ length: many }, (_, index) => [name(index), 1]));

const badKey = async ({ url }: Place): Promise<Strike> => {
  return async () => {
    const key = `key_pvt_${randomBytes(16).toString('hex').slice(0, 22)}`;
    const response = await fetch(`${url}/tokens`, { headers: { 'SVC-API-KEY': key } });
    await response.arrayBuffer();
    return response.status;
  };
};

/** Opens a connection and writes `bytes` of a request. */
async function write(url: string, bytes: Buffer): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

const post = (length: number, key?: string) =>
  `POST /tokens HTTP/1.1\r\nHost: vault\r\n${key === undefined ? '' : `SVC-API-KEY: ${key}\r\n`}` +
  `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

/** Waits until the answer begins, the connection ends, or the attack ends. Gives the status of the answer. */
function answerOf(socket: Socket, signal: AbortSignal): Promise<number | undefined> {
  return new Promise((resolve) => {
    const settle = (status?: number) => {
      signal.removeEventListener('abort', abort);
      socket.destroy();
      resolve(status);
    };
    const abort = () => settle();
    signal.addEventListener('abort', abort);
    if (signal.aborted) return settle();
    socket.once('data', (bytes: Buffer) => settle(Number(bytes.toString('latin1', 9, 12))));
    socket.once('close', () => settle());
  });
}

/**
 * Sends the body without its last byte. After a refusal it waits a second: the attack is on memory, not on the rate.
 */
const stall = (key: string | undefined, url: string): Strike => {
  const bytes = Buffer.from(post(mebibyte, key) + 'x'.repeat(mebibyte - 1), 'latin1');
  return async (signal) => {
    const status = await answerOf(await write(url, bytes), signal);
    await pause(1_000, undefined, { signal }).catch(() => undefined);
    return status;
  };
};

/** Requests a page of nearly 4 MiB and reads no byte of it. */
async function leaveUnread(place: Place): Promise<Strike> {
  const transform = 'reveal';
  const permissions = ['token:create', 'token:read'];
  const rule = { description: 'all', priority: 1, container: '/', transform, permissions };
  const caller = await makeCaller(place, { permissions: [], rules: [rule] });
  const body = { type: 'token', data: 'x'.repeat(500_000) };
  for (let made = 0; made < 8; made += 1) await caller.expect(201, 'POST', '/tokens', { body });
  const head = `GET /tokens?size=8 HTTP/1.1\r\nHost: vault\r\nSVC-API-KEY: ${caller.key}\r\n\r\n`;
  const request = Buffer.from(head, 'latin1');
  return async (signal) => {
    const socket = await write(place.url, request);
    socket.pause();
    return new Promise((resolve) => {
      const end = () => resolve(void socket.destroy());
      signal.addEventListener('abort', end);
      socket.once('close', end);
      if (signal.aborted) end();
    });
  };
}

/** Reads one token, with as many connections as there are concurrent strikes. */
async function readOften(place: Place): Promise<Strike> {
  const caller = await makeCaller(place);
  const body = { type: 'token', data: 'x' };
  const { id } = (await caller.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body;
  return repeat(caller, 'GET', `/tokens/${id}`);
}

/** Asks by a public key for a position that no event has. */
async function waitInVain(place: Place): Promise<Strike> {
  const caller = await makeCaller(place, publicCaller);
  const headers = { 'SVC-POSITION': '18446744073709551615' };
  return async () => (await caller.request('GET', '/applications/key', { headers })).status;
}

export const edgeAttacks: readonly Attack[] = [
  {
    name: '1 MiB of metadata',
    line: 'F1',
    atOnce: 8,
    statuses: [400],
    prepare: oversized({ metadata: entries((index) => `k${index}`) }),
  },
  {
    name: '1 MiB of metadata of an object to tokenize',
    line: 'F1',
    atOnce: 8,
    statuses: [400],
    prepare: async (place) => {
      const object = { type: 'token', data: 'x', metadata: entries((index) => `k${index}`) };
      return repeat(await makeCaller(place, publicCaller), 'POST', '/tokenize', [object]);
    },
  },
  {
    name: '80,000 unknown fields',
    line: 'B7',
    atOnce: 8,
    statuses: [400],
    prepare: oversized(entries((index) => `f${index}`)),
  },
  {
    name: '400,000 items that are not valid',
    line: 'B7',
    atOnce: 8,
    statuses: [400],
    prepare: oversized({ search_indexes: Array(400_000).fill(1) }),
  },
  { name: 'bad keys', line: 'B8, F3', atOnce: 32, statuses: [401, 429], limit: 429, prepare: badKey },
  {
    name: '800 bodies of 1 MiB that stall, without a key',
    line: 'F5',
    atOnce: 800,
    statuses: [401, 429],
    limit: 429,
    sink: 401,
    prepare: async ({ url }) => stall(undefined, url),
  },
  {
    name: '200 bodies of 1 MiB that stall, with a key',
    line: 'F5',
    atOnce: 200,
    statuses: [408, 503],
    limit: 503,
    sink: 503,
    prepare: async (place) => stall((await makeCaller(place)).key, place.url),
  },
  {
    name: '50 pages of 4 MiB that the client does not read',
    line: 'F5',
    atOnce: 50,
    statuses: [],
    prepare: leaveUnread,
  },
  {
    name: 'reads by 1,000 connections',
    line: 'B',
    atOnce: 1_000,
    statuses: [200],
    prepare: readOften,
  },
  {
    name: '600 queries of a position that no event has',
    line: 'B',
    atOnce: 600,
    statuses: [503],
    prepare: waitInVain,
  },
  {
    name: 'metrics asked for by 50 clients',
    line: 'F6',
    atOnce: 50,
    statuses: [200],
    prepare: async ({ manager }) => repeat(manager, 'GET', '/metrics'),
  },
];
