import { randomUUID } from 'node:crypto';
import type { LogEntry, OperationId } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { operationOf, send } from '../canary/journey.ts';
import type { Draft } from '../canary/places.ts';
import { plans } from '../canary/plans.ts';
import type { CallerName, World } from '../canary/world.ts';

/** What the log says of a refusal, without when and in which trace. */
export type Entry = Omit<LogEntry, 'tenant_id' | 'created_at' | 'trace_id'>;

export interface Told {
  /** Undefined where nobody is told. */
  readonly status: number | undefined;
  readonly entries: readonly Entry[];
}

/** Requests that are refused, each once, by one caller. */
export interface Refused {
  readonly key: string | null;
  /** Of the application that reactor code acts as; undefined when code can be no such caller. */
  readonly asker?: string | undefined;
  /** Whom the log names. */
  readonly actorId?: string | undefined;
  readonly drafts: ReadonlyMap<OperationId, Draft>;
  /** Who reads the log of its tenant. */
  readonly reader?: CallerName;
}

type AllTold = ReadonlyMap<OperationId, Told>;

interface Entrance {
  readonly name: string;
  /** Undefined when these requests cannot come by it. */
  readonly ask: (world: World, refused: Refused) => Promise<AllTold | undefined>;
}

async function entriesOf(world: World, traceId: string, by: CallerName = 'management'): Promise<LogEntry[]> {
  const reader = world.anybody.withKey(world.keys[by] ?? '');
  const path = `/logs?size=100&trace_id=${traceId}`;
  return (await reader.expect<{ data: LogEntry[] }>(200, 'GET', path)).body.data;
}

/** Oldest first. */
const told = (entries: readonly LogEntry[]): Entry[] =>
  entries.map(({ tenant_id: _tenant, created_at: _at, trace_id: _trace, ...entry }) => entry).reverse();

async function overHttp(
  world: World,
  { key, drafts, reader }: Refused,
  more: Readonly<Record<string, string>> = {},
  times = 1,
): Promise<AllTold> {
  const all = new Map<OperationId, Told>();
  await Promise.all(
    [...drafts].map(async ([id, draft]) => {
      const traceId = randomUUID();
      const headers = { ...draft.headers, ...more, 'svc-trace-id': traceId };
      let status: number | undefined;
      for (let time = 0; time < times; time += 1)
        ({ status } = await send(world, id, { ...draft, headers }, key));
      all.set(id, { status, entries: told(await entriesOf(world, traceId, reader)) });
    }),
  );
  return all;
}

/** Those that code can send: it has no headers. */
function callsOf({ drafts }: Refused) {
  return [...drafts].flatMap(([id, draft]) => {
    const { svc: method, values } = plans[id];
    const isSendable = method !== undefined && Object.keys(draft.headers).length === 0;
    return isSendable ? [{ id, method, values: values?.(draft) ?? [] }] : [];
  });
}

async function byCode(world: World, refused: Refused, callback_url?: string): Promise<AllTold | undefined> {
  const calls = callsOf(refused);
  if (refused.asker === undefined || calls.length === 0) return undefined;
  const traceId = randomUUID();
  const body = {
    args: { calls: JSON.stringify(calls).replaceAll('{{', '<<') },
    ...(callback_url && { callback_url }),
  };
  const answer = await world.anybody.expect<{ raw: { statuses: number[] } } | undefined>(
    callback_url ? 202 : 200,
    'POST',
    `/reactors/${refused.asker}/react`,
    { key: world.keys.revealing, body, headers: { 'SVC-TRACE-ID': traceId } },
  );
  const isOver = async () =>
    (await entriesOf(world, traceId)).some(({ message }) => message === 'Reactor succeeded');
  await waitUntil(isOver, { timeoutMs: 60_000, what: 'the end of the run' });
  const entries = (await entriesOf(world, traceId)).filter(
    ({ operation }) => operation === 'denied' || operation === 'authenticate',
  );
  const statuses = answer.body?.raw.statuses;
  return new Map(
    calls.map(({ id }, index) => [
      id,
      { status: statuses?.[index], entries: told(entries.filter(({ request }) => request === id)) },
    ]),
  );
}

const once = (all: AllTold): AllTold =>
  new Map(
    [...all].map(([id, { status, entries }]) => {
      const half = entries.slice(entries.length / 2);
      // Both attempts are on record, alike.
      return [
        id,
        { status, entries: JSON.stringify([...half, ...half]) === JSON.stringify(entries) ? half : entries },
      ];
    }),
  );

/** Each way into the vault that a refusal can come by. A further one (proxy) is one more of these. */
export const entrances: readonly Entrance[] = [
  { name: 'HTTP', ask: (world, refused) => overHttp(world, refused) },
  {
    name: 'a repeat under an idempotency key',
    async ask(world, refused) {
      return once(await overHttp(world, refused, { 'svc-idempotency-key': randomUUID() }, 2));
    },
  },
  { name: 'reactor code', ask: (world, refused) => byCode(world, refused) },
  {
    name: 'reactor code from the queue',
    ask: (world, refused) => byCode(world, refused, `${world.receiverUrl}/refusals`),
  },
];

export const hasId = (id: OperationId): boolean => operationOf(id).path.includes('{id}');
