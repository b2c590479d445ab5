import { z } from 'zod';
import type { Json } from '../json.ts';
import type { FieldErrors } from '../problems.ts';
import { defineEvent, unchanged } from './registry.ts';
import { moment, requiredSignature, sealedValue, signature } from './sealed.ts';

export const maxSeenTokens = 1_000;

const identity = { invocation_id: z.uuid(), reactor_id: z.uuid() };

/** Everything of it was checked: what is in the log will be run, once. */
export const ReactorInvoked = defineEvent(
  'ReactorInvoked',
  z.object({
    ...identity,
    /** What runs is the reactor as it was then, whatever becomes of it meanwhile. */
    reactor_revision: z.int().min(0),
    mode: z.enum(['sync', 'async']),
    /** Sealed JSON object; its detokenization expressions are not substituted yet. */
    args: sealedValue,
    token_ids: z.array(z.string()),
    timeout_ms: z.int(),
    /** Sealed, as it may hold a credential. */
    callback_url: sealedValue.optional(),
    /** How many invocations it is within: a reactor may invoke reactors. */
    depth: z.int().min(0),
    signature,
  }),
  // Version 2 may be signed.
  [unchanged],
);
/** An invocation of a release that did not sign them, which is not over, is signed as it is. */
export const ReactorInvocationSigned = defineEvent(
  'ReactorInvocationSigned',
  z.object({ ...identity, signature: requiredSignature }),
);

/** A runner has taken it: nobody else may. What has no outcome at the deadline never gets one from this runner. */
export const ReactorStarted = defineEvent(
  'ReactorStarted',
  z.object({ ...identity, runner_id: z.string(), deadline: moment }),
);

/**
 * Tokens that the code read, made or used by `req.svc`, and those made of its output: the result may tell of them. Absent when they were
 * too many, or when nobody counted.
 */
const seenTokenIds = z.array(z.string()).max(maxSeenTokens).optional();

/** When the first cvc ends that the code was shown: what the outcome says is not kept longer. Absent when it was shown none. */
const cvcEndsAt = moment.optional();

/** `result`: the sealed body that a synchronous caller is answered. */
export const ReactorSucceeded = defineEvent(
  'ReactorSucceeded',
  z.object({
    ...identity,
    mode: z.enum(['sync', 'async']),
    result: sealedValue,
    seen_token_ids: seenTokenIds,
    cvc_ends_at: cvcEndsAt,
  }),
  // Version 2 says which tokens its code saw, and when the first cvc of them ends.
  [unchanged],
);

export const ReactorFailed = defineEvent(
  'ReactorFailed',
  z.object({
    ...identity,
    mode: z.enum(['sync', 'async']),
    status: z.int(),
    /** How it ended, in a word of ours. */
    reason: z.string(),
    /** Sealed detail, errors and, maybe, a whole response: the code's words may quote data. */
    problem: sealedValue,
    seen_token_ids: seenTokenIds,
    cvc_ends_at: cvcEndsAt,
  }),
  // Version 2 says which tokens its code saw, and when the first cvc of them ends.
  [unchanged],
);

const attempt = z.int().min(1);
export const WebhookDelivered = defineEvent('WebhookDelivered', z.object({ ...identity, attempt }));
export const WebhookAttemptFailed = defineEvent(
  'WebhookAttemptFailed',
  z.object({ ...identity, attempt, reason: z.string(), next_at: moment }),
);
/** The last attempt failed too. */
export const WebhookGivenUp = defineEvent(
  'WebhookGivenUp',
  z.object({ ...identity, attempt, reason: z.string() }),
);

export const invocationEvents = [
  ReactorInvoked,
  ReactorInvocationSigned,
  ReactorStarted,
  ReactorSucceeded,
  ReactorFailed,
  WebhookDelivered,
  WebhookAttemptFailed,
  WebhookGivenUp,
] as const;

/** What a sealed `problem` holds. `custom`: the code chose the whole response itself. */
export interface ReactorProblem {
  readonly detail: string;
  readonly errors: FieldErrors;
  readonly custom?: { readonly headers: Readonly<Record<string, string>>; readonly body?: Json };
}

export type InvocationField = 'args' | 'callback_url' | 'outcome';

export const invocationEntity = (invocationId: string): string => `invocation:${invocationId}`;

/** The one place each sealed field of an invocation opens at. Fields have keys of their own: their lives differ. */
export const invocationPlace = (tenantId: string, invocationId: string, field: InvocationField) => ({
  tenantId,
  entity: invocationEntity(invocationId),
  field,
});
