import {
  ANY,
  NO_STREAM,
  STREAM_EXISTS,
  type AppendExpectedRevision,
  type EventStoreDBClient,
} from '@eventstore/db-client';
import type { AppendRequest } from '../append-request.ts';
import { AppendUnansweredError, type AppendResult, type ExpectedRevision, type Position } from '../port.ts';
import { proposedEvent } from './recorded.ts';

/**
 * The client's deadline is not enough: a call that waits for a connection may wait for ever. The client has this time to apply its own
 * deadline first.
 */
const graceMs = 500;

/**
 * Sends an append as a call of its own.
 * @throws AppendUnansweredError when there was no answer in time.
 */
export function appendPlainly(
  client: EventStoreDBClient,
  request: AppendRequest,
  deadlineMs: number,
): Promise<AppendResult> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new AppendUnansweredError('the append was not answered in time')),
      deadlineMs + graceMs,
    );
    send(client, request, deadlineMs)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}

async function send(
  client: EventStoreDBClient,
  { stream, events, expected }: AppendRequest,
  deadlineMs: number,
): Promise<AppendResult> {
  const { nextExpectedRevision, position } = await client.appendToStream(stream, events.map(proposedEvent), {
    expectedRevision: expectedRevision(expected),
    deadline: deadlineMs,
  });
  if (!position) throw new AppendUnansweredError('the server did not say where it stored the append');
  return { position: String(position.commit) as Position, revision: Number(nextExpectedRevision) };
}

/** `checkAppend` has replaced `noRevision` by `no-stream`: the client has no name for revision -1. */
function expectedRevision(expected: ExpectedRevision): AppendExpectedRevision {
  switch (expected) {
    case 'any':
      return ANY;
    case 'no-stream':
      return NO_STREAM;
    case 'exists':
      return STREAM_EXISTS;
    default:
      return BigInt(expected);
  }
}
