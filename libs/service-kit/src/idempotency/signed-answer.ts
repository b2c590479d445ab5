import { AlteredRecordError, answerStatement, type Statement } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { StoredAnswer } from './sealed-answer.ts';

/** The row of an answer. The scope stands for the caller and for what was asked for. */
export interface AnswerPlace {
  readonly scope: Buffer;
  readonly tenantId: string;
  readonly requestId: string;
}

type Hashing = Pick<KeyRing, 'hashes'>;

function statementOf({ scope, requestId }: AnswerPlace, answer: StoredAnswer): Statement {
  const { signature: _signature, ...said } = answer;
  return answerStatement(scope.toString('hex'), requestId, said);
}

export async function signAnswer(
  keys: Hashing,
  place: AnswerPlace,
  answer: StoredAnswer,
): Promise<StoredAnswer> {
  const hashes = await keys.hashes(place.tenantId);
  // It is in no stream, and never changes.
  return { ...answer, signature: hashes.sign(statementOf(place, answer), 0) };
}

/**
 * Who can write the table could else show the answer of one request to the caller of another (ADR 20).
 * @throws AlteredRecordError
 */
export async function requireSignedAnswer(
  keys: Hashing,
  place: AnswerPlace,
  answer: StoredAnswer,
): Promise<void> {
  const hashes = await keys.hashes(place.tenantId);
  const statement = statementOf(place, answer);
  if (!hashes.isSigned(statement, answer.signature)) throw new AlteredRecordError(statement.kind);
}
