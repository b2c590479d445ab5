import {
  DomainError,
  invocationPlace,
  reactorProblemCode,
  type DataOf,
  type FieldErrors,
  type Json,
  type ReactorProblem,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';
import type { Answer } from '@token-vault/service-kit';

/** The error that a failed run is to its caller, in the common error format (decisions.md §1 and §10). */
const failure = (status: number, detail: string, errors: FieldErrors): DomainError =>
  new DomainError(reactorProblemCode(status), detail, { errors });

async function openOutcome<Content extends Json>(
  keyRing: Pick<KeyRing, 'open'>,
  event: RecordedEvent,
  invocationId: string,
  sealed: SealedValue,
): Promise<Content> {
  try {
    const place = invocationPlace(event.metadata.tenant_id, invocationId, 'outcome');
    return (await keyRing.open<Content>(place, sealed)).expose();
  } catch (error) {
    if (error instanceof KeyDestroyedError)
      throw new DomainError('conflict', 'The reactor has run; its result is no longer kept.');
    throw error;
  }
}

/** Answers the invoker from the outcome event. @throws DomainError when the run failed */
export async function answerFrom(keyRing: Pick<KeyRing, 'open'>, event: RecordedEvent): Promise<Answer> {
  const { position } = event;
  if (event.type === 'ReactorSucceeded') {
    const { invocation_id: id, result } = event.data as unknown as DataOf<'ReactorSucceeded'>;
    return { body: await openOutcome(keyRing, event, id, result as SealedValue), position };
  }
  const { invocation_id: id, status, problem } = event.data as unknown as DataOf<'ReactorFailed'>;
  const opened = await openOutcome(keyRing, event, id, problem as SealedValue);
  const { detail, errors, custom } = opened as unknown as ReactorProblem;
  if (custom === undefined) throw failure(status, detail, errors);
  return { status, headers: custom.headers, body: custom.body, position };
}
