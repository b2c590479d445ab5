import type { Principal } from '@token-vault/access';
import { randomBytes, randomUUID } from 'node:crypto';
import {
  ApplicationCreated,
  applicationStatement,
  ProxyCreated,
  proxyStatement,
  ReactorCreated,
  reactorStatement,
  streams,
  TenantCreated,
  tenantStatement,
  TokenCreated,
  TokenDeleted,
  searchIndexStatementOf,
  tokenStatementOf,
  type DataOf,
  type Json,
  type VaultEventType,
  type EventName,
  type NewDataOf,
} from '@token-vault/contracts';
import { secret, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import { createRequestContext } from '@token-vault/operations';
import type { ManualClock } from '@token-vault/test-support';
import { principalOf } from './principals.ts';

export type TokenSeed = Partial<Omit<DataOf<'TokenCreated'>, 'data' | 'cvc'>> & {
  readonly data?: Json;
  readonly cvc?: string;
  /** The values of the search indexes, each an expression of literal text. */
  readonly indexed?: readonly string[];
  /** False as for a token of a release that did not sign the hashes of search indexes. */
  readonly hasSignedIndexes?: boolean;
  /** The application that creates the token, by default `maker`. */
  readonly by?: string;
};

/** Appends the events of commands, with valid defaults. The read models have them after `settle`. */
export interface Seeds {
  /** A tenant with keys. */
  tenant(settings?: Record<string, string>): Promise<string>;
  /** Seals and records a token and gives its id. The read models have it after `settle`. */
  token(tenantId: string, seed?: TokenSeed): Promise<string>;
  deleteToken(tenantId: string, id: string): Promise<void>;
  application(tenantId: string, seed?: Partial<DataOf<'ApplicationCreated'>>): Promise<string>;
  reactor(
    tenantId: string,
    seed?: { name?: string; application_id?: string; configuration?: Record<string, string> },
  ): Promise<string>;
  proxy(tenantId: string, configuration?: Record<string, string>): Promise<string>;
  readonly append: <Type extends VaultEventType>(
    tenantId: string,
    stream: string,
    name: EventName<Type>,
    data: NewDataOf<Type>,
    principal?: Principal,
  ) => Promise<Position>;
}

/** The application that creates the tokens of `token`. */
export const maker = randomUUID();

interface Place {
  readonly tenantId: string;
  readonly entity: string;
  readonly field: string;
}

interface Recorder extends Pick<Seeds, 'append'> {
  readonly keyRing: KeyRing;
  readonly sealed: (place: Place, value: Json) => Promise<SealedValue>;
}

export function createSeeds(store: EventStore, keyRing: KeyRing, clock: ManualClock): Seeds {
  async function append<Type extends VaultEventType>(
    tenantId: string,
    stream: string,
    name: EventName<Type>,
    data: NewDataOf<Type>,
    principal: Principal = principalOf(tenantId),
  ): Promise<Position> {
    const context = createRequestContext({
      principal,
      traceId: 'seed',
      now: clock.now(),
    });
    return (await store.append(stream, [context.event(name, data)], 'any')).position;
  }

  const sealed = (place: Place, value: Json) => keyRing.sealNew(place, secret(value));

  const recorder: Recorder = { append, sealed, keyRing };
  return { append, ...createTokenSeeds(recorder, clock), ...createEntitySeeds(recorder) };
}

function createTokenSeeds(
  { append, sealed, keyRing }: Recorder,
  clock: ManualClock,
): Pick<Seeds, 'token' | 'deleteToken'> {
  return {
    async token(tenantId, seed = {}) {
      const { data = 'plain text', cvc, indexed, hasSignedIndexes = true, by = maker, ...content } = seed;
      const id = content.token_id ?? randomUUID();
      const entity = `token:${id}`;
      const hashes = await keyRing.hashes(tenantId);
      const sealedContent = {
        token_type: 'token',
        containers: ['/general/high/'],
        ...content,
        token_id: id,
        data: await sealed({ tenantId, entity, field: 'data' }, data),
        ...(cvc !== undefined && { cvc: await sealed({ tenantId, entity, field: 'cvc' }, cvc) }),
        ...(indexed && {
          search_indexes: content.search_indexes ?? [...indexed],
          index_hashes: indexed.map((value) => hashes.blindIndex('search_index', value)),
        }),
      };
      const made = { createdBy: by, createdAt: clock.now().toISOString() };
      const token = { id, type: sealedContent.token_type, content: sealedContent, ...made };
      const signature = hashes.sign(tokenStatementOf(token), 0);
      const indexes = hasSignedIndexes && searchIndexStatementOf(id, sealedContent);
      const index_signature = indexes ? hashes.sign(indexes, 0) : undefined;
      const stream = streams.token(tenantId, id);
      const principal = principalOf(tenantId, { applicationId: by });
      await append(
        tenantId,
        stream,
        TokenCreated,
        { ...sealedContent, signature, index_signature },
        principal,
      );
      return id;
    },

    async deleteToken(tenantId, id) {
      await append(tenantId, streams.token(tenantId, id), TokenDeleted, {
        token_id: id,
        token_type: 'token',
        key_ids: [],
      });
    },
  };
}

function createEntitySeeds({
  append,
  sealed,
  keyRing,
}: Recorder): Pick<Seeds, 'tenant' | 'application' | 'reactor' | 'proxy'> {
  return {
    async tenant(settings = {}) {
      const id = randomUUID();
      await keyRing.createTenantKeys(id);
      const statement = tenantStatement({ plan: 'standard', settings, acceptsUnsigned: false });
      const signature = (await keyRing.hashes(id)).sign(statement, 0);
      const data = { tenant_id: id, name: 'Acme', plan: 'standard' as const, settings, signature };
      await append(id, streams.tenant(id), TenantCreated, data);
      return id;
    },

    async application(tenantId, seed = {}) {
      const id = seed.application_id ?? randomUUID();
      const content = {
        name: 'Backend',
        type: 'private' as const,
        key_hash: randomBytes(32).toString('hex'),
        permissions: ['token:read' as const],
        rules: [],
        ...seed,
      };
      const { key_hash: keyHash, expires_at: expiresAt } = content;
      const statement = applicationStatement({ id, ...content, keyHash, keyId: null, keys: [], expiresAt });
      const signature = (await keyRing.hashes(tenantId)).sign(statement, 0);
      const data = { ...content, application_id: id, signature };
      await append(tenantId, streams.application(tenantId, id), ApplicationCreated, data);
      return id;
    },

    async reactor(tenantId, { name = 'Pay', configuration = {}, ...seed } = {}) {
      const id = randomUUID();
      const place = { tenantId, entity: `reactor:${id}`, field: 'configuration' };
      const code = 'module.exports = async () => ({})';
      const content = { name, code, configuration: await sealed(place, configuration), ...seed };
      const statement = reactorStatement({ id, ...content, applicationId: seed.application_id });
      const signature = (await keyRing.hashes(tenantId)).sign(statement, 0);
      const data = { reactor_id: id, ...content, signature };
      await append(tenantId, streams.reactor(tenantId, id), ReactorCreated, data);
      return id;
    },

    async proxy(tenantId, configuration = {}) {
      const id = randomUUID();
      const place = { tenantId, entity: `proxy:${id}`, field: 'configuration' };
      const content = {
        name: 'Pay',
        destination: 'https://pay.example',
        destinations: [],
        require_auth: true,
        configuration: await sealed(place, configuration),
      };
      const unset = { requestCode: null, responseCode: null, applicationId: null };
      const statement = proxyStatement({ id, ...content, ...unset, requireAuth: true, keys: [] });
      const signature = (await keyRing.hashes(tenantId)).sign(statement, 0);
      const data = { proxy_id: id, ...content, signature };
      await append(tenantId, streams.proxy(tenantId, id), ProxyCreated, data);
      return id;
    },
  };
}
