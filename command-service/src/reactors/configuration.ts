import { NotFoundError, ValidationError } from '@token-vault/contracts';
import {
  KeyDestroyedError,
  secret,
  type KeyRing,
  type SealContext,
  type SealedValue,
  type Secret,
} from '@token-vault/crypto';

export type Configuration = Readonly<Record<string, string>>;

/** rules.md §3. The request schema limits the entries of one request; a merge adds them to stored entries. */
const maxEntries = 25;

export const reactorEntity = (reactorId: string): string => `reactor:${reactorId}`;

/** The place (AAD) under which a reactor's configuration is sealed. query-service and reactor-runner use the same. */
const placeOf = (tenantId: string, reactorId: string): SealContext => ({
  tenantId,
  entity: reactorEntity(reactorId),
  field: 'configuration',
});

export interface Configurations {
  seal(tenantId: string, reactorId: string, configuration: Configuration): Promise<SealedValue>;
  /** @throws NotFoundError when the reactor was deleted meanwhile. */
  reseal(
    tenantId: string,
    reactorId: string,
    before: SealedValue,
    configuration: Configuration,
  ): Promise<SealedValue>;
  /** @throws NotFoundError when the reactor was deleted meanwhile. */
  open(tenantId: string, reactorId: string, sealed: SealedValue): Promise<Secret<Configuration>>;
}

/**
 * The key of a configuration is destroyed only when its reactor is deleted, so a missing key means a missing reactor.
 */
async function orNotFound<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof KeyDestroyedError) throw new NotFoundError('The reactor');
    throw error;
  }
}

export function createConfigurations(keyRing: KeyRing): Configurations {
  return {
    seal: (tenantId, reactorId, configuration) =>
      keyRing.sealNew(placeOf(tenantId, reactorId), secret({ ...configuration }), { durability: 'own' }),
    reseal: (tenantId, reactorId, before, configuration) =>
      orNotFound(keyRing.sealAgain(placeOf(tenantId, reactorId), before, secret({ ...configuration }))),
    open: (tenantId, reactorId, sealed) =>
      orNotFound(keyRing.open<Record<string, string>>(placeOf(tenantId, reactorId), sealed)),
  };
}

/** @throws ValidationError */
export function requireFewEntries(configuration: Configuration): void {
  if (Object.keys(configuration).length > maxEntries) {
    throw ValidationError.of('configuration', `must have at most ${maxEntries} entries`);
  }
}
