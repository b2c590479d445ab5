import type { AnswerToken, Handlers } from '@token-vault/operations';
import type { TokenCreation } from './create.ts';
import { createTokens, deleteTokens } from './batch.ts';
import { deleteToken } from './delete.ts';
import type { TokenDependencies } from './dependencies.ts';
import { tokenize, type AtomicWrites } from './tokenize.ts';
import { tokensOfCreate } from './told.ts';
import type { TokenUpdate } from './update.ts';
import type { UpdatedToken } from './updated.ts';

export interface TokenCommands {
  readonly dependencies: TokenDependencies;
  readonly creation: TokenCreation;
  readonly update: TokenUpdate;
  readonly atomic: AtomicWrites;
}

function tokensOfUpdate(id: string, { token, cvcEndsAt, shown, told }: UpdatedToken): AnswerToken[] {
  const by = token.id === id ? 'update' : 'duplicate-of-update';
  const whole: AnswerToken = { id: token.id, createdAt: token.created_at, at: [], by, cvcEndsAt, shown };
  return [whole, ...(told === undefined ? [] : [told])];
}

export function tokenRoutes(commands: TokenCommands) {
  return {
    async createToken({ body }, context) {
      const created = await commands.creation.create(body, context);
      const { token, position, isNew, isRepeat } = created;
      const tokens = tokensOfCreate(created, []);
      return { status: isNew ? 201 : 200, body: token, position, tokens, isRepeat };
    },
    createTokens: ({ body }, context) =>
      createTokens(commands.dependencies, commands.creation, body.tokens, context),
    deleteTokens: ({ body }, context) => deleteTokens(commands.dependencies, body.ids, context),
    async updateToken({ params, body }, context) {
      const updated = await commands.update.update(params.id, body, context);
      const { token, position, isRepeat } = updated;
      return { body: token, position, tokens: tokensOfUpdate(params.id, updated), isRepeat };
    },
    async deleteToken({ params }, context) {
      const { token, position } = await deleteToken(commands.dependencies, params.id, context);
      return { position, deleted: [token] };
    },
    async tokenize({ body }, context) {
      return tokenize(commands, body, context);
    },
  } satisfies Handlers;
}
