import type { AnswerToken, Handlers } from '@token-vault/operations';
import type { TokenHandlers } from './handlers.ts';
import { tokensOfCreate } from './told.ts';
import type { UpdatedToken } from './updated.ts';

function tokensOfUpdate(id: string, { token, cvcEndsAt, shown, told }: UpdatedToken): AnswerToken[] {
  const by = token.id === id ? 'update' : 'duplicate-of-update';
  const whole: AnswerToken = { id: token.id, createdAt: token.created_at, at: [], by, cvcEndsAt, shown };
  return [whole, ...(told === undefined ? [] : [told])];
}

export function tokenRoutes(tokens: TokenHandlers) {
  return {
    async createToken({ body }, context) {
      const created = await tokens.create(body, context);
      const { token, position, isNew, isRepeat } = created;
      return {
        status: isNew ? 201 : 200,
        body: token,
        position,
        tokens: tokensOfCreate(created, []),
        isRepeat,
      };
    },
    createTokens: ({ body }, context) => tokens.createAll(body.tokens, context),
    deleteTokens: ({ body }, context) => tokens.deleteAll(body.ids, context),
    async updateToken({ params, body }, context) {
      const updated = await tokens.update(params.id, body, context);
      const { token, position, isRepeat } = updated;
      return { body: token, position, tokens: tokensOfUpdate(params.id, updated), isRepeat };
    },
    async deleteToken({ params }, context) {
      const { token, position } = await tokens.delete(params.id, context);
      return { position, deleted: [token] };
    },
    tokenize: ({ body }, context) => tokens.tokenize(body, context),
  } satisfies Handlers;
}
