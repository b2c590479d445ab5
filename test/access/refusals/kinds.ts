import { randomUUID } from 'node:crypto';
import type { EntityType, OperationId } from '@token-vault/contracts';
import { cardNumber, createTestPool, waitUntil } from '@token-vault/test-support';
import { draftOf, ids, operationOf } from '../canary/journey.ts';
import type { Draft } from '../canary/places.ts';
import type { CallerName, World } from '../canary/world.ts';
import { hasId, type Entry, type Refused } from './entrances.ts';

/** A kind of refusal, for each operation that has it. */
export interface Kind {
  readonly name: string;
  readonly status: number;
  readonly requests: () => Promise<readonly Refused[]>;
  /** Each process counts for itself, so only a vault of one process refuses the same at each entrance. */
  readonly isCounted?: true;
  /** The log entry of the refusal. Undefined when there is none. */
  readonly entry?: (id: OperationId, draft: Draft, refused: Refused) => Partial<Entry>;
  readonly after?: () => Promise<void>;
}

let world: World;
/** The world of the test file, in which all requests are sent. */
export const refuseIn = (opened: World): void => {
  world = opened;
};

const tokenIds = ids.filter((id) => operationOf(id).permission?.startsWith('token:'));
const ofTenants = ids.filter((id) => !tokenIds.includes(id));
/** Ids without an entity. */
const unknownIds = new Set<string>();
function unknownId(id: OperationId): string {
  const made = operationOf(id).entity === 'token' ? cardNumber() : randomUUID();
  unknownIds.add(made);
  return made;
}

async function draftsOf(
  wanted: readonly OperationId[],
  change: (draft: Draft, id: OperationId) => Draft = (draft) => draft,
): Promise<Map<OperationId, Draft>> {
  const made = wanted.map(async (id) => [id, change(await draftOf(world, id), id)] as const);
  return new Map(await Promise.all(made));
}
const withUnknownId = (draft: Draft, id: OperationId): Draft =>
  hasId(id) ? { ...draft, params: { ...draft.params, id: unknownId(id) } } : draft;

/** A caller of the world, with a reactor for some of them. */
const callerOf = (name: CallerName): Omit<Refused, 'drafts'> => ({
  key: world.keys[name],
  asker: (world.askers as Partial<Record<CallerName, string>>)[name],
  actorId: (world.applicationIds as Partial<Record<CallerName, string>>)[name],
});

export async function newCaller(body: object, hasAsker = false): Promise<Omit<Refused, 'drafts'>> {
  const { id, key } = await world.make({ name: 'refused', type: 'private', ...body });
  return { key, actorId: id, ...(hasAsker && { asker: await world.makeAsker(id) }) };
}

/** A caller with all permissions of its type except the one that the operation needs. */
async function callersWithout(wanted: readonly OperationId[]): Promise<Refused[]> {
  const isOfTokens = (id: OperationId) => operationOf(id).permission?.startsWith('token:') === true;
  const bare = await newCaller({ permissions: ['token:read'] }, true);
  const bareToo = await newCaller({ permissions: ['token:create'] }, true);
  const manager = await newCaller({ type: 'management', permissions: ['log:read'] });
  const managerToo = await newCaller({ type: 'management', permissions: ['report:read'] });
  const groups: [Omit<Refused, 'drafts'>, (id: OperationId) => boolean][] = [
    [bare, (id) => isOfTokens(id) && operationOf(id).permission !== 'token:read'],
    [bareToo, (id) => operationOf(id).permission === 'token:read'],
    [manager, (id) => !isOfTokens(id) && operationOf(id).permission !== 'log:read'],
    [managerToo, (id) => operationOf(id).permission === 'log:read'],
  ];
  const requests: Refused[] = [];
  for (const [caller, isFor] of groups) {
    const mine = wanted.filter((id) => operationOf(id).permission !== null && isFor(id));
    requests.push({ ...caller, drafts: await draftsOf(mine) });
    requests.push({ ...caller, drafts: await draftsOf(mine.filter(hasId), withUnknownId) });
  }
  return requests;
}

const everywhere = (container: string, transform: string) => [
  {
    priority: 1,
    container,
    transform,
    permissions: ['token:create', 'token:read', 'token:update', 'token:delete', 'token:search', 'token:use'],
  },
];

const findable: ReadonlySet<EntityType> = new Set(['token', 'application', 'proxy', 'reactor']);

/**
 * The entity of a refusal, if it was found. A token in the arguments of a reactor is found before the reactor runs. `detokenize` and
 * `getErasureCertificate` refuse a caller without the permission before they look for tokens, as lists do.
 */
export function foundBy(
  id: OperationId,
  { params, body }: Draft,
): { type: EntityType; id: string } | undefined {
  const { entity } = operationOf(id);
  const { token } = world.ids;
  if (id === 'detokenize' || id === 'getErasureCertificate') return undefined;
  if (JSON.stringify(body ?? null).includes(`{{ ${token} }}`)) return { type: 'card', id: token };
  const given = params['id'];
  if (given === undefined || !findable.has(entity) || unknownIds.has(given)) return undefined;
  return { type: given === token ? 'card' : entity, id: given };
}

function denied(id: OperationId, draft: Draft, { actorId }: Refused): Partial<Entry> {
  const found = foundBy(id, draft);
  const type = found?.type ?? operationOf(id).entity;
  const name = type === 'card' ? 'token' : type;
  return {
    operation: 'denied',
    actor_type: 'application',
    ...(actorId === undefined ? {} : { actor_id: actorId }),
    entity_type: type,
    ...(found === undefined ? {} : { entity_id: found.id }),
    message: `${name.charAt(0).toUpperCase()}${name.slice(1)} access denied`,
    request: id,
  };
}

const failedAs =
  (type: 'application' | 'session'): NonNullable<Kind['entry']> =>
  (id, _draft, { actorId }) => ({
    operation: 'authenticate',
    actor_type: type,
    entity_type: type,
    ...(actorId === undefined ? {} : { actor_id: actorId, entity_id: actorId }),
    message: 'Authentication failed',
    request: id,
  });

const unauthenticated = (name: CallerName, entry?: Kind['entry']): Kind => ({
  name: `401, ${name}`,
  status: 401,
  requests: async () => [{ ...callerOf(name), drafts: await draftsOf(ids) }],
  ...(entry && { entry }),
});

const withBody =
  (body: Draft['body']) =>
  (draft: Draft): Draft => ({ ...draft, ...(body === undefined ? {} : { body }) });

function invalid(draft: Draft, id: OperationId): Draft {
  if (operationOf(id).method === 'GET' && !hasId(id)) return { ...draft, query: { unknown_parameter: 'x' } };
  if (id === 'tokenize') return { ...draft, body: { type: 'card', data: { number: '1' } } };
  // Any JSON without an error in an expression is valid there.
  if (id === 'detokenize') return { ...draft, body: { a: '{{ not closed' } };
  return operationOf(id).body
    ? { ...draft, body: { unknown_field: 1 } }
    : { ...draft, params: { ...draft.params, id: 'x'.repeat(401) } };
}

const setStatus = async (name: string, status: string): Promise<void> => {
  const pool = createTestPool(await world.vault.databaseUrl());
  await pool.query('update projections.checkpoint set status = $1 where name = $2', [status, name]);
  await pool.end();
};
const setMissLimit = async (limit: string): Promise<void> => {
  const body = { name: 'tenant', settings: { data_misses_per_minute: limit } };
  const key = world.keys.management;
  await world.clientWithoutKey.expect(200, 'PUT', '/tenants/self', { key, body });
};

export const kinds: readonly Kind[] = [
  unauthenticated('without a key'),
  unauthenticated('an unknown key'),
  unauthenticated('a regenerated key', failedAs('application')),
  unauthenticated('a deleted application', failedAs('application')),
  unauthenticated('an expired application', failedAs('application')),
  unauthenticated('a session that is not authorised', failedAs('session')),
  unauthenticated('a session that has expired', failedAs('session')),
  { name: '403, the permission', status: 403, requests: () => callersWithout(ids), entry: denied },
  {
    name: '403, the container',
    status: 403,
    async requests() {
      const caller = await newCaller({ rules: everywhere('/elsewhere/', 'reveal') }, true);
      const drafts = await draftsOf(['createToken', 'tokenize', 'getToken', 'updateToken', 'deleteToken']);
      const card = { card: `{{ ${world.ids.token} }}` };
      const uses = [
        ...(await draftsOf(['react'], withBody({ args: card }))),
        ...(await draftsOf(['proxy', 'invokeProxy'], withBody(card))),
      ];
      return [{ ...caller, drafts: new Map([...drafts, ...uses]) }];
    },
    entry: denied,
  },
  {
    name: '403, hidden data',
    status: 403,
    async requests() {
      const caller = await newCaller({ rules: everywhere('/', 'mask') }, true);
      return [{ ...caller, drafts: await draftsOf(['updateToken'], withBody({ mask: '{{ data }}' })) }];
    },
    entry: denied,
  },
  {
    name: '403, the plan',
    status: 403,
    async requests() {
      const caller = { ...callerOf('another tenant'), reader: 'management of another tenant' as const };
      const enlist = (draft: Draft, id: OperationId): Draft => ({
        ...withUnknownId(draft, id),
        headers: { 'svc-transaction-id': randomUUID() },
      });
      const whole = ids.filter((id) => operationOf(id).plan === 'enterprise');
      const enlistable = ids.filter((id) => operationOf(id).isEnlistable);
      return [
        { ...caller, drafts: await draftsOf(whole, withUnknownId) },
        { ...caller, drafts: await draftsOf(enlistable, enlist) },
      ];
    },
    entry: denied,
  },
  {
    name: '404',
    status: 404,
    requests: async () => [
      { ...callerOf('revealing'), drafts: await draftsOf(tokenIds.filter(hasId), withUnknownId) },
      {
        ...callerOf('management'),
        drafts: await draftsOf(
          ofTenants.filter((id) => hasId(id)),
          withUnknownId,
        ),
      },
    ],
  },
  {
    name: '409, taken or locked',
    status: 409,
    async requests() {
      const { id: transaction } = (
        await world.clientWithoutKey.expect<{ id: string }>(201, 'POST', '/transactions', {
          key: world.keys.revealing,
        })
      ).body;
      const id = `locked-${randomUUID()}`;
      await world.clientWithoutKey.expect(201, 'POST', '/tokens', {
        key: world.keys.revealing,
        headers: { 'svc-transaction-id': transaction },
        body: { id, type: 'token', data: 'locked' },
      });
      const locked = { type: 'token', data: 'x', id };
      return [{ ...callerOf('revealing'), drafts: await draftsOf(['createToken'], withBody(locked)) }];
    },
  },
  {
    name: '400',
    status: 400,
    requests: async () => {
      const canBeInvalid = (id: OperationId) =>
        operationOf(id).method === 'GET' || operationOf(id).body !== undefined || hasId(id);
      const by = (caller: CallerName, wanted: readonly OperationId[]) =>
        draftsOf(wanted.filter(canBeInvalid), invalid).then((drafts) => ({ ...callerOf(caller), drafts }));
      return [
        await by('revealing', [...tokenIds, 'authorizeSession']),
        await by(
          'management',
          ofTenants.filter((id) => id !== 'authorizeSession'),
        ),
      ];
    },
  },
  {
    name: '429, misses',
    status: 429,
    isCounted: true,
    async requests() {
      await setMissLimit('1');
      const caller = await newCaller({ permissions: ['token:search'] }, true);
      const search = { query: `data:${cardNumber()}` };
      await world.clientWithoutKey.expect(200, 'POST', '/tokens/search', { key: caller.key, body: search });
      return [{ ...caller, drafts: await draftsOf(['searchTokens'], withBody(search)) }];
    },
    after: () => setMissLimit('0'),
  },
  {
    name: '503, a read model that stands still',
    status: 503,
    async requests() {
      const drafts = await draftsOf(['getToken', 'listTokens', 'searchTokens']);
      await setStatus('tokens', 'paused');
      const caller = callerOf('revealing');
      const isStill = async () =>
        (await world.clientWithoutKey.request('GET', '/tokens', { key: caller.key })).status === 503;
      await waitUntil(isStill, { timeoutMs: 10_000, what: 'the refusal' });
      return [{ ...caller, drafts }];
    },
    after: () => setStatus('tokens', 'live'),
  },
];
