import {
  aliased,
  AlertAttemptFailed,
  AlertDelivered,
  AlertGivenUp,
  AlteredRecordError,
  newEvent,
  newId,
  streams,
  type Json,
  type VaultEvent,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import { EgressError, type EgressFetch } from '@token-vault/egress';
import { noRevision, RevisionConflictError, type EventStore } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';
import { rowsOf } from '../read-model.ts';
import { retryAfter } from './schedule.ts';
import { readTenantWebhooks, sendWebhook } from './send.ts';

const d = aliased('alerts', 'delivery', 'd');

export interface AlertDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly fetch: EgressFetch;
  readonly clock: Clock;
  /** The pool of the read models. */
  readonly pool: Pool;
}

interface AlertRow {
  readonly content: { readonly trace_id: string } & Record<string, Json>;
}

interface Attempts {
  readonly made: number;
  readonly isOver: boolean;
  /** The time of the next attempt; undefined before the first. */
  readonly dueAt: Date | undefined;
  readonly revision: number;
}

async function attemptsOf(store: EventStore, stream: string): Promise<Attempts> {
  let attempts: Attempts = { made: 0, isOver: false, dueAt: undefined, revision: noRevision };
  for await (const { type, data, revision } of store.readStream(stream)) {
    const failed = type === AlertAttemptFailed.type;
    const dueAt = failed ? new Date(data.next_at) : undefined;
    attempts = { made: attempts.made + 1, isOver: !failed, dueAt, revision };
  }
  return attempts;
}

/** Why an attempt failed. `isFinal`: another one would fail too. */
interface Failure {
  readonly reason: string;
  readonly isFinal: boolean;
}

export interface Alert {
  readonly tenantId: string;
  readonly id: string;
}

/** The setting `security_webhook_url` was changed while the connection was being made. */
class UrlChangedError extends Error {}

async function attempt(
  dependencies: AlertDependencies,
  { tenantId, id }: Alert,
  { content }: AlertRow,
  signal: AbortSignal,
): Promise<Failure | undefined> {
  try {
    const url = (await readTenantWebhooks(dependencies, tenantId)).securityUrl();
    if (url === undefined) return { reason: 'no security_webhook_url', isFinal: true };
    const secrets = async () => {
      const present = await readTenantWebhooks(dependencies, tenantId);
      if (present.securityUrl() !== url) throw new UrlChangedError();
      return present.secrets;
    };
    const body = JSON.stringify({ ...content, type: 'break_glass', id });
    const { trace_id: traceId } = content;
    const webhook = { tenantId, id, traceId, url, body, contentType: 'application/json', signal, secrets };
    const reason = await sendWebhook(dependencies, webhook);
    return reason === undefined ? undefined : { reason, isFinal: false };
  } catch (error) {
    // No webhook has been sent to the earlier URL.
    if (error instanceof UrlChangedError) return attempt(dependencies, { tenantId, id }, { content }, signal);
    if (error instanceof EgressError) return { reason: error.code, isFinal: false };
    // The record may be repaired, or be signed by the upgrade, before the last attempt.
    if (error instanceof AlteredRecordError) return { reason: 'record altered', isFinal: false };
    if (error instanceof KeyDestroyedError) return { reason: 'the tenant is gone', isFinal: true };
    throw error;
  }
}

function eventOf(
  place: { readonly tenantId: string; readonly id: string; readonly traceId: string },
  number: number,
  failure: Failure | undefined,
  now: Date,
): VaultEvent {
  const { tenantId, id, traceId } = place;
  const actor = { kind: 'system', id: 'security-alerts' } as const;
  const metadata = {
    tenant_id: tenantId,
    actor,
    trace_id: traceId,
    correlation_id: traceId,
    occurred_at: now.toISOString(),
  };
  const named = { id: newId(), metadata };
  const data = { alert_id: id, attempt: number };
  if (!failure) return newEvent(AlertDelivered, data, named);
  const next = failure.isFinal ? undefined : retryAfter(number, now);
  const { reason } = failure;
  return next === undefined
    ? newEvent(AlertGivenUp, { ...data, reason }, named)
    : newEvent(AlertAttemptFailed, { ...data, reason, next_at: next.toISOString() }, named);
}

/**
 * Makes the attempt to deliver a security webhook, if one is due, and appends its result (docs/reference/reasons.md). Delivery is at least
 * once, as that of results: a crash in between repeats the attempt with the same `webhook-id`. The event that records the access makes the
 * row, so a webhook is due for every such access.
 */
export async function deliverAlert(
  dependencies: AlertDependencies,
  { tenantId, id }: Alert,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, pool } = dependencies;
  const stream = streams.alert(tenantId, id);
  const { made, isOver, dueAt, revision } = await attemptsOf(store, stream);
  if (isOver || (dueAt && dueAt > clock.now())) return;
  const text = `select ${d.content} from ${d.source} where ${d.id} = $1 and ${d.tenant_id} = $2`;
  const [row] = await rowsOf<AlertRow>(pool, text, [id, tenantId]);
  if (!row) return;
  const failure = await attempt(dependencies, { tenantId, id }, row, signal);
  const place = { tenantId, id, traceId: row.content.trace_id };
  try {
    await store.append(stream, [eventOf(place, made + 1, failure, clock.now())], revision);
  } catch (error) {
    if (!(error instanceof RevisionConflictError)) throw error;
  }
}
