import { randomUUID } from 'node:crypto';
import type { LogEntry, OperationId } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { operationOf, send } from '../canary/journey.ts';
import type { Draft } from '../canary/places.ts';
import { plans } from '../canary/plans/index.ts';
import type { CallerName, World } from '../canary/world.ts';

/** The log entry of a refusal, without its time and trace. */
export type Entry = Omit<LogEntry, 'tenant_id' | 'created_at' | 'trace_id'>;

interface Told {
  /** Undefined where no caller gets an answer. */
  readonly status: number | undefined;
  readonly entries: readonly Entry[];
}

/** Requests that are refused, each sent once, by one caller. */
export interface Refused {
  readonly key: string | null;
  /** The application that reactor code acts as. Undefined when code cannot act as such a caller. */
  readonly asker?: string | undefined;
  /** The actor that the log names. */
  readonly actorId?: string | undefined;
  readonly drafts: ReadonlyMap<OperationId, Draft>;
  /** The caller that reads the log of its tenant. */
  readonly reader?: CallerName;
}

type AllTold = ReadonlyMap<OperationId, Told>;

export interface Entrance {
  readonly name: string;
  /** Undefined when these requests cannot use this entrance. */
  readonly ask: (world: World, refused: Refused) => Promise<AllTold | undefined>;
}

async function entriesOf(world: World, traceId: string, by: CallerName = 'management'): Promise<LogEntry[]> {
  const reader = world.clientWithoutKey.withKey(world.keys[by] ?? '');
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

/** The requests that code can send: it has no headers. */
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
  const answer = await world.clientWithoutKey.expect<{ raw: { statuses: number[] } } | undefined>(
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
      // Both attempts have an equal record.
      return [
        id,
        { status, entries: JSON.stringify([...half, ...half]) === JSON.stringify(entries) ? half : entries },
      ];
    }),
  );

/** The entrances at which a refusal can happen. Code of a proxy is given `req.svc` as that of reactors (cells.slow). */
export const entrances: readonly Entrance[] = [
  { name: 'HTTP', ask: (world, refused) => overHttp(world, refused) },
  {
    name: 'a repeat under an idempotency key',
    async ask(world, refused) {
      // A proxy keeps no answers of others, so it takes no such key.
      const drafts = new Map([...refused.drafts].filter(([id]) => !operationOf(id).isRaw));
      return once(await overHttp(world, { ...refused, drafts }, { 'svc-idempotency-key': randomUUID() }, 2));
    },
  },
  { name: 'reactor code', ask: (world, refused) => byCode(world, refused) },
  {
    name: 'reactor code from the queue',
    ask: (world, refused) => byCode(world, refused, `${world.receiverUrl}/refusals`),
  },
];

/** Past nginx: the router of the processes, which stands in its place where there is none. */
export const behindRouter: Entrance = {
  name: 'HTTP, by the router',
  ask: (world, refused) => overHttp({ ...world, clientWithoutKey: world.vault.client('none') }, refused),
};

export const hasId = (id: OperationId): boolean => operationOf(id).path.includes('{id}');
