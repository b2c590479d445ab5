import { AlteredRecordError, answerStatement, type Statement } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { StoredAnswer } from './sealed-answer.ts';

/** The row of an answer. The scope identifies the caller and the request. */
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
  // The answer is in no stream and never changes, so its revision is 0.
  return { ...answer, signature: hashes.sign(statementOf(place, answer), 0) };
}

/**
 * Without the signature, an attacker who can write the table could show the answer of one request to the caller of another (ADR 20).
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
