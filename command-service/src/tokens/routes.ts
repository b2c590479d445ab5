import type { Token } from '@token-vault/contracts';
import type { AnswerToken, Handlers, Showing } from '@token-vault/operations';
import type { TokenCreation } from './create.ts';
import { createTokens, deleteTokens } from './batch.ts';
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
  {
    token,
    cvcEndsAt,
    shown,
  }: {
    readonly token: Token;
    readonly cvcEndsAt?: string | undefined;
    readonly shown?: Showing | undefined;
  },
  by: AnswerToken['by'],
): AnswerToken => ({
  id: token.id,
  createdAt: token.created_at,
  at: [],
  by,
  cvcEndsAt,
  shown,
});

export function tokenRoutes(commands: TokenCommands) {
  return {
    async createToken({ body }, context) {
      const created = await commands.creation.create(body, context);
      const { token, position, isNew, isRepeat } = created;
      const by = isNew ? 'create' : 'duplicate-of-create';
      const tokens = [wholeBody(created, by)];
      return { status: isNew ? 201 : 200, body: token, position, tokens, isRepeat };
    },
    createTokens: ({ body }, context) =>
      createTokens(commands.dependencies, commands.creation, body.tokens, context),
    deleteTokens: ({ body }, context) => deleteTokens(commands.dependencies, body.ids, context),
    async updateToken({ params, body }, context) {
      const updated = await commands.update.update(params.id, body, context);
      const { token, position, isRepeat } = updated;
      const by = token.id === params.id ? 'update' : 'duplicate-of-update';
      return { body: token, position, tokens: [wholeBody(updated, by)], isRepeat };
    },
    async deleteToken({ params }, context) {
      return { position: await deleteToken(commands.dependencies, params.id, context) };
    },
    async tokenize({ body }, context) {
      return tokenize(commands, body, context);
    },
  } satisfies Handlers;
}
