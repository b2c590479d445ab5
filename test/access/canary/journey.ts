import { hasFullRuns } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { operations, type Json, type Operation, type OperationId } from '@token-vault/contracts';
import type { Canaries, Planted } from './canaries.ts';
import { type Draft, type Place, placesOf, type Written } from './places.ts';
import { plans } from './plans/index.ts';
import { allowanceOf } from './stored-in-plain.ts';
import { callerNames, type World } from './world.ts';

/** An answer with the canaries of its request. */
export interface Answered {
  readonly planted: readonly Planted[];
  readonly operation: string;
  readonly caller: string;
  readonly status: number;
  readonly text: string;
}

export interface Flocks {
  /** Canaries at places where they may never be stored. */
  readonly hidden: Canaries;
  /** Canaries at places where they are stored in plain when the request succeeds. */
  readonly open: Canaries;
}

export const ids = Object.keys(operations) as OperationId[];
export const operationOf = (id: OperationId): Operation => operations[id];
const isWritten = (place: Place): boolean => /^(path\.|query|body)/.test(place.name);

const emptyDraft: Draft = { params: {}, query: {}, headers: {} };

export async function draftOf(world: World, id: OperationId): Promise<Draft> {
  return { ...emptyDraft, ...(await plans[id].ready(world)) };
}

/** Every character as `%` and two hex digits, which servers decode. */
const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

type Encode = (text: string) => string;

function targetOf({ path }: Operation, { params, query, suffix = '' }: Draft, encode: Encode): string {
  const written = path
    .replace(/\{(\w+)\*\}$/, '{$1}')
    .replaceAll(/\{(\w+)\}/g, (_all, name: string) => encode(params[name] ?? ''));
  const pairs = Object.entries(query).map(([name, value]) => `${encode(name)}=${encode(value)}`);
  return written + suffix + (pairs.length === 0 ? '' : `?${pairs.join('&')}`);
}

export async function send(
  world: World,
  id: OperationId,
  draft: Draft,
  key: string | null,
  encode: Encode = encodeURIComponent,
): Promise<{ status: number; text: string }> {
  const operation = operationOf(id);
  const content = draft.text ?? (draft.body === undefined ? undefined : JSON.stringify(draft.body));
  // `ANY` stands for several methods: POST, the one with a body.
  const method = operation.method === 'ANY' ? 'POST' : operation.method;
  return world.clientWithoutKey.request(method, targetOf(operation, draft, encode), {
    key,
    headers: draft.headers,
    ...(content === undefined || operation.method === 'GET' ? {} : { text: content }),
  });
}

/**
 * Operations and places take turns: each has one of `count` portions, and together they have all. With TEST_RUNS=full each has all.
 */
const isTurnOf = (index: number, turn: number, count: number): boolean =>
  hasFullRuns || index % count === turn % count;

/** Headers are read before the operation is known, so a fourth of them for each operation is enough. */
const headerPortions = 4;

function placesInTurn(id: OperationId): Place[] {
  const turn = ids.indexOf(id);
  return placesOf(operationOf(id)).filter(
    ({ name }, index) => !name.startsWith('header.') || isTurnOf(index, turn, headerPortions),
  );
}

/** The forms in which a number is written at a place: as it is, one of the others, and one that the operation accepts. */
function writingsInTurn(id: OperationId, place: Place, turn: number): ((number: string) => Written)[] {
  const [plain, ...others] = writingsOf(place);
  const own = plans[id].written?.[place.name];
  return [
    ...(plain ? [plain] : []),
    ...others.filter((_write, index) => isTurnOf(index, turn, others.length)),
    ...(own ? [own] : []),
  ];
}

function writingsOf(place: Place): ((number: string) => Written)[] {
  const isBody = place.name.startsWith('body');
  // The vault reads no other headers.
  if (place.name.startsWith('header.') && !/svc-|traceparent/.test(place.name)) return [(number) => number];
  return [
    (number) => number,
    (number) => (isWritten(place) ? `of ${number}, as told` : `of-${number}-as-told`),
    (number) => number.replaceAll(/(.{4})(?!$)/g, '$1-'),
    ...(isBody && !place.name.endsWith(' name') ? [Number] : []),
  ];
}

/**
 * Each place of each operation in turn, in an otherwise valid request, and a repeat of it under its idempotency key.
 */
async function* onePlaceAtATime(world: World, flocks: Flocks, id: OperationId): AsyncGenerator<Answered> {
  const { by: caller } = plans[id];
  const entrance = 'HTTP';
  for (const [turn, place] of placesInTurn(id).entries())
    for (const [index, write] of writingsInTurn(id, place, turn).entries()) {
      const flock = allowanceOf(id, place.name) ? flocks.open : flocks.hidden;
      const isInTarget = /^(path\.|query)/.test(place.name) && (hasFullRuns || index === 0);
      const encodings = isInTarget ? [encodeURIComponent, percent] : [encodeURIComponent];
      for (const encode of encodings) {
        const planted = flock.plant({ operation: id, place: place.name, entrance, caller });
        const valid = await draftOf(world, id);
        // A proxied request cannot be repeated: with an idempotency key it is 400.
        const key = operationOf(id).isRaw ? {} : { 'svc-idempotency-key': randomUUID() };
        const draft = place.put({ ...valid, headers: { ...valid.headers, ...key } }, write(planted.number));
        const { status, text } = await send(world, id, draft, world.keys[caller], encode);
        planted.status = status;
        yield { planted: [planted], operation: id, caller, status, text };
        const isRepeated = place.name === 'header.svc-idempotency-key' || place.name === 'body.data';
        if (isRepeated)
          yield {
            planted: [planted],
            operation: id,
            caller,
            ...(await send(world, id, draft, world.keys[caller])),
          };
      }
    }
}

/** Every other caller: once with a canary at every place, and once only where the request stays valid. */
async function* byEveryCaller(world: World, flocks: Flocks, id: OperationId): AsyncGenerator<Answered> {
  const all = placesOf(operationOf(id)).filter(
    ({ name }) => !/svc-api-key|svc-position|content-|path \(unknown\)/.test(name),
  );
  const harmless = (place: Place): boolean =>
    /^(path\.id|header\.(svc-trace-id|svc-idempotency-key|user-agent|x-forwarded-for|traceparent|referer))$/.test(
      place.name,
    );
  const turn = ids.indexOf(id);
  for (const [index, caller] of callerNames.entries())
    for (const places of [all, ...(isTurnOf(index, turn, 2) ? [all.filter(harmless)] : [])]) {
      if (caller === plans[id].by || (id === 'deleteTenant' && caller.startsWith('management'))) continue;
      const planted: Planted[] = [];
      let draft: Draft = { ...emptyDraft };
      for (const place of places) {
        const each = flocks.hidden.plant({ operation: id, place: place.name, entrance: 'HTTP', caller });
        planted.push(each);
        draft = place.put(draft, plans[id].written?.[place.name]?.(each.number) ?? each.number);
      }
      const { status, text } = await send(world, id, draft, world.keys[caller]);
      for (const each of planted) each.status = status;
      yield { planted, operation: id, caller, status, text };
    }
}

export async function overHttp(world: World, flocks: Flocks): Promise<Answered[]> {
  const answered: Answered[] = [];
  const take = async (all: AsyncGenerator<Answered>) => {
    for await (const each of all) answered.push(each);
  };
  // One request after the other within an operation, because some change the same entity.
  await Promise.all(
    ids.map(async (id) => {
      await take(onePlaceAtATime(world, flocks, id));
      await take(byEveryCaller(world, flocks, id));
    }),
  );
  return answered;
}

interface SvcCall {
  readonly planted: Planted;
  readonly method: string;
  readonly values: readonly Json[];
}

const svcIds = ids.filter((id) => plans[id].svc !== undefined);
export const svcMethods = svcIds.map((id) => plans[id].svc ?? '');

async function* svcCalls(
  world: World,
  flocks: Flocks,
  entrance: string,
  caller: string,
): AsyncGenerator<SvcCall> {
  for (const id of svcIds) {
    const { svc: method = '', values } = plans[id];
    const places = placesOf(operationOf(id)).filter((each) => !each.isHttpOnly);
    for (const [turn, place] of places.entries())
      for (const write of writingsInTurn(id, place, turn)) {
        const isOpen = allowanceOf(id, place.name) !== undefined;
        const flock = isOpen ? flocks.open : flocks.hidden;
        const planted = flock.plant({ operation: id, place: place.name, entrance, caller });
        const draft = place.put(await draftOf(world, id), write(planted.number));
        yield { planted, method, values: values?.(draft) ?? [] };
      }
  }
}

/** The most calls of one run, which may take 10 s on a busy machine. */
const atOnce = 20;

/** By reactor code, as applications of every kind, in synchronous and asynchronous runs. */
export async function byReactorCode(world: World, flocks: Flocks): Promise<void> {
  for (const [asker, reactor] of Object.entries(world.askers)) {
    const entrance = asker === 'public' ? 'reactor code from the queue' : 'reactor code';
    const calls: SvcCall[] = [];
    for await (const call of svcCalls(world, flocks, entrance, asker)) calls.push(call);
    for (let from = 0; from < calls.length; from += atOnce) {
      const portion = calls.slice(from, from + atOnce);
      const told = JSON.stringify(portion.map(({ method, values }) => ({ method, values })));
      const statuses = await runAsker(world, reactor, told.replaceAll('{{', '<<'), asker === 'public');
      portion.forEach(({ planted }, index) => (planted.status = statuses?.[index]));
    }
  }
}

/** The statuses of the calls. Undefined for an asynchronous run, whose outcome goes to the receiver. */
async function runAsker(
  world: World,
  reactor: string,
  calls: string,
  isQueued: boolean,
): Promise<number[] | undefined> {
  const revealer = world.clientWithoutKey.withKey(world.keys.revealing ?? '');
  const path = `/reactors/${reactor}/react`;
  const body = { args: { calls } };
  if (isQueued) {
    const callback_url = `${world.receiverUrl}/${randomUUID()}`;
    await revealer.expect(202, 'POST', path, { body: { ...body, callback_url } });
    return undefined;
  }
  const answer = await revealer.expect<{ raw: { statuses: number[] } }>(200, 'POST', path, { body });
  return answer.body.raw.statuses;
}
