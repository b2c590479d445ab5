import type { CreateTokenBody, Json, PatchTokenBody, Secret } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { createTokens, deleteTokens } from './batch.ts';
import { TokenCreation } from './create.ts';
import { deleteToken } from './delete.ts';
import type { TokenDependencies } from './dependencies.ts';
import { tokenize, type AtomicWrites } from './tokenize.ts';
import { TokenUpdate } from './update.ts';

export type TokenHandlers = ReturnType<typeof createTokenHandlers>;

/** The commands of tokens. Each has a file of its own. */
export function createTokenHandlers(dependencies: TokenDependencies, atomic: AtomicWrites) {
  const creation = new TokenCreation(dependencies);
  const update = new TokenUpdate(dependencies);
  return {
    create: (body: CreateTokenBody, context: RequestContext) => creation.create(body, context),
    createAll: (bodies: readonly Secret<Json>[], context: RequestContext) =>
      createTokens(dependencies, creation, bodies, context),
    update: (id: string, body: PatchTokenBody, context: RequestContext) => update.update(id, body, context),
    delete: (id: string, context: RequestContext) => deleteToken(dependencies, id, context),
    deleteAll: (ids: readonly string[], context: RequestContext) => deleteTokens(dependencies, ids, context),
    tokenize: (payload: Secret<Json>, context: RequestContext) =>
      tokenize({ dependencies, creation, atomic }, payload, context),
  };
}
