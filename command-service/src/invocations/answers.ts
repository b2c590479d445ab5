import {
  type DataOf,
  DomainError,
  invocationPlace,
  reactorProblemCode,
  type FieldErrors,
  type Json,
  type ReactorProblem,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { Answer, AnswerToken, Path } from '@token-vault/service-kit';
import type { OutcomeEvent } from './state.ts';

/** The error that a failed run is to its caller, in the common error format (rules.md §1 and §10). */
const failure = (
  { status, reason }: Pick<DataOf<'ReactorFailed'>, 'status' | 'reason'>,
  detail: string,
  errors: FieldErrors,
): DomainError => new DomainError(reactorProblemCode(status, reason), detail, { errors });

/** The invocation that was asked about. What an event says of itself is not asked: it could be of another. */
interface Asked {
  readonly tenantId: string;
  readonly invocationId: string;
}

async function openOutcome<Content extends Json>(
  keyRing: Pick<KeyRing, 'open'>,
  { tenantId, invocationId }: Asked,
  sealed: SealedValue,
): Promise<Content> {
  try {
    const place = invocationPlace(tenantId, invocationId, 'outcome');
    return (await keyRing.open<Content>(place, sealed)).expose();
  } catch (error) {
    if (error instanceof KeyDestroyedError)
      throw new DomainError('conflict', 'The reactor has run; its result is no longer kept.');
    throw error;
  }
}

/** Tokens made of the output of a reactor, where its answer holds them whole. Deeper than any answer is, nothing is looked for. */
function outputTokens(value: Json | undefined, tenantId: string, at: Path): AnswerToken[] {
  if (value === null || typeof value !== 'object') return [];
  if (Array.isArray(value))
    return value.flatMap((item, index) => outputTokens(item, tenantId, [...at, index]));
  const { id, created_at: createdAt } = value;
  if (typeof id === 'string' && typeof createdAt === 'string' && value.tenant_id === tenantId)
    return [{ id, createdAt, at, by: 'output' }];
  return Object.entries(value).flatMap(([name, item]) => outputTokens(item, tenantId, [...at, name]));
}

/** Which tokens the answer of a run may tell of. */
function tokensOf(
  event: OutcomeEvent,
  { tenantId }: Asked,
  body: Json | undefined,
  usedTokenIds: readonly string[],
) {
  const { seen_token_ids: seen, cvc_ends_at: cvcEndsAt } = event.data;
  const made = (body as { tokens?: Json } | null | undefined)?.tokens;
  const tokens: AnswerToken[] = [
    ...usedTokenIds.map((id) => ({ id, by: 'use' as const, cvcEndsAt })),
    ...(seen ?? []).map((id) => ({ id, by: 'seen' as const, cvcEndsAt })),
    ...outputTokens(made, tenantId, ['tokens']),
  ];
  return { tokens, isUnrepeatable: seen === undefined };
}

/** Answers the invoker from the outcome event. @throws DomainError when the run failed */
export async function answerFrom(
  keyRing: Pick<KeyRing, 'open'>,
  asked: Asked,
  event: OutcomeEvent,
  usedTokenIds: readonly string[],
): Promise<Answer> {
  const { position } = event;
  if (event.type === 'ReactorSucceeded') {
    const body = await openOutcome(keyRing, asked, event.data.result as SealedValue);
    return { body, position, ...tokensOf(event, asked, body, usedTokenIds) };
  }
  const { status, problem } = event.data;
  const opened = await openOutcome(keyRing, asked, problem as SealedValue);
  const { detail, errors, custom } = opened as unknown as ReactorProblem;
  if (custom === undefined) throw failure(event.data, detail, errors);
  const tokens = tokensOf(event, asked, undefined, usedTokenIds);
  return { status, headers: custom.headers, body: custom.body, position, ...tokens };
}
