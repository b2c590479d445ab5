import type { Token } from '@token-vault/contracts';
import type { AnswerToken, Handlers } from '@token-vault/service-kit';
import type { TokenCreation } from './create.ts';
import { deleteToken } from './delete.ts';
import type { TokenDependencies } from './dependencies.ts';
import { tokenize, type AtomicWrites } from './tokenize.ts';
import type { TokenUpdate } from './update.ts';

export interface TokenCommands {
  readonly dependencies: TokenDependencies;
  readonly creation: TokenCreation;
  readonly update: TokenUpdate;
  readonly atomic: AtomicWrites;
}

const wholeBody = (
  { token, cvcEndsAt }: { readonly token: Token; readonly cvcEndsAt?: string | undefined },
  by: AnswerToken['by'],
): AnswerToken => ({
  id: token.id,
  createdAt: token.created_at,
  at: [],
  by,
  cvcEndsAt,
});

export function tokenRoutes(tokens: TokenCommands) {
  return {
    async createToken({ body }, context) {
      const created = await tokens.creation.create(body, context);
      const { token, position, isNew } = created;
      const by = isNew ? 'create' : 'duplicate-of-create';
      return { status: isNew ? 201 : 200, body: token, position, tokens: [wholeBody(created, by)] };
    },
    async updateToken({ params, body }, context) {
      const updated = await tokens.update.update(params.id, body, context);
      const { token, position } = updated;
      const by = token.id === params.id ? 'update' : 'duplicate-of-update';
      return { body: token, position, tokens: [wholeBody(updated, by)] };
    },
    async deleteToken({ params }, context) {
      return { position: await deleteToken(tokens.dependencies, params.id, context) };
    },
    async tokenize({ body }, context) {
      return tokenize(tokens, body, context);
    },
  } satisfies Handlers;
}
