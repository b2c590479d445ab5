import {
  ApplicationKeyDeleted,
  streams,
  type Application,
  type ApplicationKey,
  type CreateApplicationKeyBody,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey, type ApiKeyType } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { load } from '../aggregates/decider.ts';
import { applicationDecider, requireActive, type ApplicationCommand } from './decider.ts';
import { once, type Deletion } from '../aggregates/deletion.ts';
import { makerOf } from './maker.ts';
import { withOffset } from './moment.ts';

export const keyTypes: Readonly<Record<Application['type'], ApiKeyType>> = {
  private: 'pvt',
  public: 'pub',
  management: 'mgt',
};

export interface ApplicationAnswer {
  readonly application: Application;
  readonly position: Position | undefined;
  readonly isRepeat?: true | undefined;
}

export interface KeyAnswer {
  readonly key: ApplicationKey;
  readonly position: Position | undefined;
}

/** Carries out a command on one application. `key` is shown in the answer. */
type Run = (
  context: RequestContext,
  id: string,
  command: ApplicationCommand,
  options?: { readonly key?: string },
) => Promise<ApplicationAnswer>;

async function keyDeletionIn(store: EventStore, stream: string, keyId: string) {
  for await (const { type, data, position } of store.readStream(stream))
    if (type === ApplicationKeyDeleted.type && data.key_id === keyId) return position;
  return undefined;
}

export function createKeyHandlers(store: EventStore, run: Run) {
  /** The prefix of a key tells the type of its application, which never changes. @throws NotFoundError */
  async function newKey(id: string, context: RequestContext): Promise<string> {
    const stream = streams.application(context.principal.tenant.id, id);
    const { type } = requireActive((await load(store, stream, applicationDecider)).state, context.now);
    return generateApiKey(keyTypes[type]);
  }

  return {
    /** Replaces the main key, which lives on for `overlap` seconds if that is given. Other keys stay. */
    async regenerateKey(id: string, overlap: number | undefined, context: RequestContext) {
      const key = await newKey(id, context);
      const command: ApplicationCommand = {
        kind: 'regenerate-key',
        keyId: context.newEntityId(),
        keyHash: hashApiKey(key),
        overlap,
        maker: makerOf(context),
        now: context.now,
      };
      return run(context, id, command, { key });
    },

    /** Another key, beside those that the application has. */
    async addKey(id: string, body: CreateApplicationKeyBody, context: RequestContext): Promise<KeyAnswer> {
      const key = await newKey(id, context);
      const expiresAt = body.expires_at === undefined ? undefined : withOffset(body.expires_at);
      const command = {
        kind: 'add-key',
        keyId: context.newEntityId(),
        keyHash: hashApiKey(key),
        expiresAt,
        maker: makerOf(context),
        now: context.now,
      } as const;
      const { position } = await run(context, id, command);
      const made = { id: command.keyId, key, created_at: context.now.toISOString(), expires_at: expiresAt };
      return { key: made, position };
    },

    /** The repeat of a deletion appends nothing and gives the position of the first one. @throws NotFoundError */
    async deleteKey(id: string, keyId: string, context: RequestContext): Promise<Deletion> {
      const stream = streams.application(context.principal.tenant.id, id);
      const command: ApplicationCommand = { kind: 'delete-key', keyId, now: context.now };
      return once(
        () => run(context, id, command),
        () => keyDeletionIn(store, stream, keyId),
      );
    },
  };
}
