import { NotFoundError, ValidationError, type PatchReactorBody } from '@token-vault/contracts';
import {
  KeyDestroyedError,
  keyIdOf,
  secret,
  type KeyRing,
  type SealContext,
  type SealedValue,
  type Secret,
} from '@token-vault/crypto';
import { mergePatch } from '../tokens/merge-patch.ts';

export type Configuration = Readonly<Record<string, string>>;

/** rules.md §3. The request schema limits the entries of one request; a merge adds them to stored entries. */
const maxEntries = 25;

/** The entities that have a configuration. */
export type ConfiguredKind = 'reactor' | 'proxy';

/** Its entity in the key ring. */
export const entityOf = (kind: ConfiguredKind, id: string): string => `${kind}:${id}`;

/** A command that may bring a new configuration. */
interface Configuring {
  readonly kind: string;
  readonly content?: { readonly configuration: SealedValue };
}

export interface Configurations {
  /** The keys of a command, for its execution: a creation brings a new one. */
  newKeys(tenantId: string): {
    idsOf(command: Configuring): readonly string[];
    destroy(keyIds: readonly string[]): Promise<unknown>;
  };
  /** Seals the configuration of a new entity, under a key that its append must be given. */
  seal(tenantId: string, id: string, configuration: Secret<Configuration>): Promise<SealedValue>;
  /** @throws NotFoundError when the entity was deleted meanwhile. */
  reseal(
    tenantId: string,
    id: string,
    before: SealedValue,
    configuration: Secret<Configuration>,
  ): Promise<SealedValue>;
  /**
   * The configuration after a merge patch; `before` without one. Sealed anew also when the patch has the present values: otherwise the answer
   * would tell a caller that may not read them whether they were met. @throws ValidationError, NotFoundError as `reseal`
   */
  patched(
    tenantId: string,
    id: string,
    before: SealedValue,
    patch: PatchReactorBody['configuration'],
  ): Promise<SealedValue>;
  /** @throws NotFoundError when the entity was deleted meanwhile. */
  open(tenantId: string, id: string, sealed: SealedValue): Promise<Secret<Configuration>>;
}

export function createConfigurations(keyRing: KeyRing, kind: ConfiguredKind): Configurations {
  /** The place (AAD) under which a configuration is sealed. query-service, reactor-runner and proxy use the same. */
  const placeOf = (tenantId: string, id: string): SealContext => ({
    tenantId,
    entity: entityOf(kind, id),
    field: 'configuration',
  });
  /** The key of a configuration is destroyed only when its entity is deleted, so a missing key means a missing entity. */
  const orNotFound = async <Result>(work: Promise<Result>): Promise<Result> => {
    try {
      return await work;
    } catch (error) {
      if (error instanceof KeyDestroyedError) throw new NotFoundError(`The ${kind}`);
      throw error;
    }
  };
  const configurations: Configurations = {
    newKeys: (tenantId) => ({
      idsOf: ({ kind: command, content }) =>
        command === 'create' && content ? [keyIdOf(content.configuration)] : [],
      destroy: (keyIds) => keyRing.destroyKeys(tenantId, keyIds),
    }),
    seal: (tenantId, id, configuration) => keyRing.sealNew(placeOf(tenantId, id), configuration),
    reseal: (tenantId, id, before, configuration) =>
      orNotFound(keyRing.sealAgain(placeOf(tenantId, id), before, configuration)),
    async patched(tenantId, id, before, given) {
      const patch = given?.expose();
      if (patch === undefined) return before;
      // An answer always has the field, so a patch with null leaves an empty configuration.
      if (patch === null) return configurations.reseal(tenantId, id, before, secret({}));
      const opened = await configurations.open(tenantId, id, before);
      const configuration = mergePatch({ ...opened.expose() }, patch) as Configuration;
      requireFewEntries(configuration);
      return configurations.reseal(tenantId, id, before, secret(configuration));
    },
    open: (tenantId, id, sealed) =>
      orNotFound(keyRing.open<Record<string, string>>(placeOf(tenantId, id), sealed)),
  };
  return configurations;
}

/** @throws ValidationError */
function requireFewEntries(configuration: Configuration): void {
  if (Object.keys(configuration).length > maxEntries) {
    throw ValidationError.of('configuration', `must have at most ${maxEntries} entries`);
  }
}
