import type { OperationId } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import type { Planted } from './canaries.ts';
import { operationOf, send, type Answered, type Flocks } from './journey.ts';
import { placesOf, type Draft } from './places.ts';
import type { CallerName, World } from './world.ts';

/** A request that is valid but for the state of the vault. */
interface Request {
  readonly id: OperationId;
  readonly key: string | null;
  readonly draft?: Partial<Draft>;
}

/** Places at which a canary leaves the request valid. */
const harmless =
  /^(header\.(svc-trace-id|svc-idempotency-key|user-agent|x-forwarded-for|referer)|body\.(metadata\.\*|data))$/;

const numbered = (number: string): string => `data:"${number}"`;

/** Sends requests with canaries that are answered 409, 429 and 503, by what other requests did before. */
export class RefusedByState {
  readonly answered: Answered[] = [];
  readonly #world: World;
  readonly #flocks: Flocks;

  constructor(world: World, flocks: Flocks) {
    this.#world = world;
    this.#flocks = flocks;
  }

  async all(): Promise<Answered[]> {
    await this.#conflicts();
    await this.#limits();
    await this.#standstill();
    return this.answered;
  }

  #keyOf(caller: CallerName): string | null {
    return this.#world.keys[caller];
  }

  async #ask({ id, key, draft }: Request): Promise<number> {
    const planted: Planted[] = [];
    const plant = (place: string) => {
      const caller = 'with an answer by state';
      const each = this.#flocks.hidden.plant({ operation: id, place, entrance: 'HTTP', caller });
      planted.push(each);
      return each.number;
    };
    let whole: Draft = { params: {}, query: {}, headers: {}, ...draft };
    for (const place of placesOf(operationOf(id)).filter(({ name }) => harmless.test(name)))
      whole = place.put(whole, plant(place.name));
    if (id === 'searchTokens') whole = { ...whole, body: { query: numbered(plant('body.query')) } };
    const { status, text } = await send(this.#world, id, whole, key);
    for (const each of planted) each.status = status;
    this.answered.push({ planted, operation: id, caller: 'with an answer by state', status, text });
    return status;
  }

  async #conflicts(): Promise<void> {
    const { clientWithoutKey, ids } = this.#world;
    const key = this.#keyOf('revealing');
    const open = clientWithoutKey.withKey(key ?? '');
    const idOf = async (path: string, body: object, headers = {}) =>
      (await open.expect<{ id: string }>(201, 'POST', path, { body, headers })).body.id;
    const token = await idOf('/tokens', { type: 'token', data: 'plain' });
    const locking = await idOf('/transactions', {});
    const headers = { 'SVC-TRANSACTION-ID': locking };
    await open.expect(200, 'PATCH', `/tokens/${token}`, { body: { metadata: { k: 'v' } }, headers });
    const over = await idOf('/transactions', {});
    await open.expect(200, 'POST', `/transactions/${over}/rollback`);
    const opener = clientWithoutKey.withKey(this.#keyOf('public') ?? '');
    const { nonce } = (await opener.expect<{ nonce: string }>(201, 'POST', '/sessions')).body;
    const authorized = { nonce, permissions: ['token:read'] };
    await open.expect(200, 'POST', '/sessions/authorize', { body: authorized });
    const taken = { id: ids.token, type: 'token', data: 'x', metadata: {} };
    await this.#ask({ id: 'createToken', key, draft: { body: taken } });
    await this.#ask({ id: 'updateToken', key, draft: { params: { id: token }, body: {} } });
    await this.#ask({ id: 'deleteToken', key, draft: { params: { id: token } } });
    for (const id of ['commitTransaction', 'rollbackTransaction'] as const)
      await this.#ask({ id, key, draft: { params: { id: over } } });
    await this.#ask({ id: 'authorizeSession', key, draft: { body: authorized } });
    await open.expect(200, 'POST', `/transactions/${locking}/rollback`);
  }

  /** By default misses are limited to 100 a minute. */
  async #limits(): Promise<void> {
    const manager = this.#world.clientWithoutKey.withKey(this.#keyOf('management of another tenant') ?? '');
    const permissions = ['token:create', 'token:read', 'token:search'];
    const body = { name: 'searcher', type: 'private', permissions };
    const { key } = (await manager.expect<{ key: string }>(201, 'POST', '/applications', { body })).body;
    let isLimited = false;
    for (let times = 0; times < 40 && !isLimited; times += 1) {
      const few = await Promise.all(Array.from({ length: 5 }, () => this.#ask({ id: 'searchTokens', key })));
      isLimited = few.includes(429);
    }
    const draft = { body: { type: 'token', data: 'x', deduplicate_token: true } };
    await this.#ask({ id: 'createToken', key, draft });
  }

  async #standstill(): Promise<void> {
    const { clientWithoutKey, ids } = this.#world;
    const manager = clientWithoutKey.withKey(this.#keyOf('management') ?? '');
    const key = this.#keyOf('revealing');
    const path = '/operations/projections/tokens';
    const reads = (status: number) =>
      waitUntil(
        async () =>
          (await clientWithoutKey.request('GET', `/tokens/${ids.token}`, { key })).status === status,
        { timeoutMs: 30_000, what: `tokens answered ${status}` },
      );
    await manager.request('POST', path, { body: { action: 'pause' } });
    await reads(503);
    await this.#ask({ id: 'getToken', key, draft: { params: { id: ids.token } } });
    for (const id of ['listTokens', 'searchTokens'] as const) await this.#ask({ id, key });
    await manager.request('POST', path, { body: { action: 'resume' } });
    await reads(200);
  }
}

/** The operations with such answers. */
export const operationsWith = (answered: readonly Answered[], wanted: number): string[] => [
  ...new Set(answered.filter(({ status }) => status === wanted).map(({ operation }) => operation)),
];
