import {
  ApplicationDeleted,
  NotFoundError,
  streams,
  type Application,
  type CreateApplicationBody,
  type UpdateApplicationBody,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey, type KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { attemptsOf, type Attempts } from '../aggregates/attempts.ts';
import { execute, load } from '../aggregates/decider.ts';
import { applicationDecider, type ApplicationCommand } from './decider.ts';
import { createKeyHandlers, keyTypes, type ApplicationAnswer } from './key-handlers.ts';
import { once, type Deletion } from '../aggregates/deletion.ts';
import { makerOf } from './maker.ts';
import { withOffset } from './moment.ts';
import { applicationSigner, type ApplicationDetails } from './state.ts';

export interface ApplicationDependencies {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
}

/** JSON leaves out unset fields. `key` is set only right after it was made. */
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

/** The commands of applications. Each appends one event to the stream of the application. */
export function createApplicationHandlers({ store, keyRing }: ApplicationDependencies) {
  async function run(
    context: RequestContext,
    id: string,
    command: ApplicationCommand,
    { key, attempts }: { readonly key?: string; readonly attempts?: Attempts } = {},
  ): Promise<ApplicationAnswer> {
    const tenantId = context.principal.tenant.id;
    const stream = streams.application(tenantId, id);
    const event = context.event.bind(context);
    const signing = { signer: applicationSigner, hashes: () => keyRing.hashes(tenantId) };
    const decider = applicationDecider;
    const execution = { store, stream, decider, command, event, signing, ...(attempts && { attempts }) };
    const { position, isRepeat } = await execute(execution);
    const { state } = await load(store, stream, applicationDecider);
    if (state.kind !== 'active') throw new NotFoundError('The application');
    return { application: present(state.details, tenantId, key), position, isRepeat };
  }

  return {
    create(body: CreateApplicationBody, context: RequestContext): Promise<ApplicationAnswer> {
      const key = generateApiKey(keyTypes[body.type]);
      const command = creation(body, hashApiKey(key), context);
      return run(context, command.id, command, { key });
    },

    update(id: string, body: UpdateApplicationBody, context: RequestContext): Promise<ApplicationAnswer> {
      const { name, permissions = [], rules = [] } = body;
      const maker = makerOf(context);
      const command = { kind: 'update', name, permissions, rules, maker, now: context.now } as const;
      return run(context, id, command, { attempts: attemptsOf(context) });
    },

    ...createKeyHandlers(store, run),

    /** The repeat of a deletion appends nothing and gives the position of the first one. @throws NotFoundError */
    async delete(id: string, context: RequestContext): Promise<Deletion> {
      const stream = streams.application(context.principal.tenant.id, id);
      const event = context.event.bind(context);
      const command: ApplicationCommand = { kind: 'delete', now: context.now };
      return once(
        () => execute({ store, stream, decider: applicationDecider, command, event }),
        () => deletionIn(store, stream),
      );
    },
  };
}
export type ApplicationHandlers = ReturnType<typeof createApplicationHandlers>;

async function deletionIn(store: EventStore, stream: string): Promise<Position | undefined> {
  for await (const { type, position } of store.readStream(stream))
    if (type === ApplicationDeleted.type) return position;
  return undefined;
}
