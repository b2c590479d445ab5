import {
  ApplicationDeleted,
  NotFoundError,
  streams,
  type Application,
  type CreateApplicationBody,
  type UpdateApplicationBody,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey, type ApiKeyType, type KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { Answer, RequestContext } from '@token-vault/service-kit';
import { execute, load } from '../aggregates/decider.ts';
import { applicationDecider, requireActive, type ApplicationCommand, type Maker } from './decider.ts';
import { applicationSigner, type ApplicationDetails } from './state.ts';

const keyTypes: Readonly<Record<Application['type'], ApiKeyType>> = {
  private: 'pvt',
  public: 'pub',
  management: 'mgt',
};

export interface ApplicationDependencies {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
}

export interface ApplicationAnswer {
  readonly application: Application;
  readonly position: Position | undefined;
}

/** Unset fields are left out by JSON; `key` only where it was made just now. */
function present(details: ApplicationDetails, tenantId: string, key?: string): Application {
  return {
    id: details.id,
    tenant_id: tenantId,
    name: details.name,
    key,
    type: details.type,
    permissions: [...details.permissions],
    rules: [...details.rules],
    created_by: details.createdBy,
    created_at: details.createdAt,
    modified_by: details.modifiedBy,
    modified_at: details.modifiedAt,
    expires_at: details.expiresAt,
  };
}

/** The vault itself acts only for an operator (the command line, the first start). */
export const makerOf = ({ principal }: RequestContext): Maker =>
  principal.actor.kind === 'system' ? 'operator' : { permissions: principal.permissions };

const creation = (body: CreateApplicationBody, keyHash: string, context: RequestContext) =>
  ({
    kind: 'create',
    id: context.newEntityId(),
    name: body.name,
    type: body.type,
    keyHash,
    permissions: body.permissions ?? [],
    rules: body.rules ?? [],
    expiresAt: body.expires_at === undefined ? undefined : withOffset(body.expires_at),
    maker: makerOf(context),
    now: context.now,
  }) satisfies ApplicationCommand;

/** Applications as commands: each appends one event to the application's stream. */
export function createApplicationHandlers({ store, keyRing }: ApplicationDependencies) {
  async function run(
    context: RequestContext,
    id: string,
    command: ApplicationCommand,
    key?: string,
  ): Promise<ApplicationAnswer> {
    const tenantId = context.principal.tenant.id;
    const stream = streams.application(tenantId, id);
    const event = context.event.bind(context);
    const signing = { signer: applicationSigner, hashes: () => keyRing.hashes(tenantId) };
    const decider = applicationDecider;
    const { position } = await execute({ store, stream, decider, command, event, signing });
    const { state } = await load(store, stream, applicationDecider);
    if (state.kind !== 'active') throw new NotFoundError('The application');
    return { application: present(state.details, tenantId, key), position };
  }

  return {
    create(body: CreateApplicationBody, context: RequestContext): Promise<ApplicationAnswer> {
      const key = generateApiKey(keyTypes[body.type]);
      const command = creation(body, hashApiKey(key), context);
      return run(context, command.id, command, key);
    },

    update(id: string, body: UpdateApplicationBody, context: RequestContext): Promise<ApplicationAnswer> {
      const { name, permissions = [], rules = [] } = body;
      const maker = makerOf(context);
      return run(context, id, { kind: 'update', name, permissions, rules, maker, now: context.now });
    },

    /** The key's prefix tells its application's type, so the type is looked up first; it never changes. */
    async regenerateKey(id: string, context: RequestContext): Promise<ApplicationAnswer> {
      const stream = streams.application(context.principal.tenant.id, id);
      const { type } = requireActive((await load(store, stream, applicationDecider)).state, context.now);
      const key = generateApiKey(keyTypes[type]);
      const command: ApplicationCommand = {
        kind: 'regenerate-key',
        keyHash: hashApiKey(key),
        maker: makerOf(context),
        now: context.now,
      };
      return run(context, id, command, key);
    },

    /** The repeat of a deletion does nothing, and tells where it was done. @throws NotFoundError */
    async delete(
      id: string,
      context: RequestContext,
    ): Promise<Pick<Answer, 'position' | 'ifConfirmedBefore'>> {
      const stream = streams.application(context.principal.tenant.id, id);
      const event = context.event.bind(context);
      const command: ApplicationCommand = { kind: 'delete', now: context.now };
      try {
        const { position } = await execute({ store, stream, decider: applicationDecider, command, event });
        return { position };
      } catch (error) {
        const position = error instanceof NotFoundError ? await deletionIn(store, stream) : undefined;
        if (position === undefined) throw error;
        return { position, ifConfirmedBefore: error as NotFoundError };
      }
    },
  };
}
export type ApplicationHandlers = ReturnType<typeof createApplicationHandlers>;

async function deletionIn(store: EventStore, stream: string): Promise<Position | undefined> {
  for await (const { type, position } of store.readStream(stream))
    if (type === ApplicationDeleted.type) return position;
  return undefined;
}

/** A time without seconds is on the minute, one without an offset is UTC (interface.md, Token expiration formats). */
export function withOffset(moment: string): string {
  const toTheSecond = moment.replace(/(T\d\d:\d\d)$/, '$1:00');
  return /(Z|[+-]\d\d:\d\d)$/i.test(toTheSecond) ? toTheSecond : `${toTheSecond}Z`;
}
