import { batchAnswer, deleteTokensAnswer, detokenizeAnswer, type Json } from '@token-vault/contracts';
import type { Asked, Told } from './asked.ts';

/** A request about one token as a request about many, and its answer as that of the first. */
interface Bulk {
  readonly asked: Asked;
  readonly toldOf: (answer: Json) => Pick<Told, 'status' | 'body'>;
}

const statusOfReason = { 'not-found': 404, forbidden: 403, 'needs-reason': 403, redacted: 200 } as const;

/** Undefined where no request about many tokens does the same. */
export function inBulk({ operation, params, body, ...rest }: Asked): Bulk | undefined {
  const { id } = (params ?? {}) as { readonly id?: string };
  switch (operation) {
    case 'getToken':
      return {
        asked: { ...rest, operation: 'detokenize', body: [`{{ token: ${id} }}`] },
        toldOf(answer) {
          const { data, not_opened: notOpened } = detokenizeAnswer.parse(answer);
          const [refused] = notOpened;
          const status = refused ? statusOfReason[refused.reason] : 200;
          return { status, body: (Array.isArray(data) ? data[0] : undefined) ?? null };
        },
      };
    case 'createToken':
      return {
        asked: { ...rest, operation: 'createTokens', body: { tokens: [body] } },
        toldOf(answer) {
          const [result] = batchAnswer.parse(answer).results;
          return {
            status: result?.status,
            body: JSON.parse(JSON.stringify(result?.token ?? result?.error ?? null)) as Json,
          };
        },
      };
    case 'deleteToken':
      return {
        asked: { ...rest, operation: 'deleteTokens', body: { ids: [id] } },
        toldOf(answer) {
          const [result] = deleteTokensAnswer.parse(answer).results;
          return { status: result?.status, body: JSON.parse(JSON.stringify(result?.error ?? null)) as Json };
        },
      };
    default:
      return undefined;
  }
}
