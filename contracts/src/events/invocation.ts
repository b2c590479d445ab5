import { z } from 'zod';
import type { Json } from '../json.ts';
import type { FieldErrors } from '../problems.ts';
import { defineEvent, unchanged } from './registry.ts';
import { moment, requiredSignature, sealedValue, signature } from './sealed.ts';

export const maxSeenTokens = 1_000;

const identity = { invocation_id: z.uuid(), reactor_id: z.uuid() };

/** A checked request to run a reactor. Once the event is in the log, the reactor runs exactly once. */
export const ReactorInvoked = defineEvent(
  'ReactorInvoked',
  z.object({
    ...identity,
    /** The revision of the reactor that runs, even if the reactor is changed or deleted meanwhile. */
    reactor_revision: z.int().min(0),
    mode: z.enum(['sync', 'async']),
    /** Sealed JSON object. Its detokenization expressions are not substituted yet. */
    args: sealedValue,
    token_ids: z.array(z.string()),
    timeout_ms: z.int(),
    /** Sealed, because a URL may hold a credential. */
    callback_url: sealedValue.optional(),
    /** The number of invocations that contain this one: a reactor may invoke reactors. */
    depth: z.int().min(0),
    /** Hash of the key that the caller used. After the caller gets another key, the invocation opens no token (rules.md §6). */
    key_hash: z.string().optional(),
    /** Sealed `ParentRun`s, for an invocation that code asked for. */
    parents: sealedValue.optional(),
    signature,
  }),
  // Version 2 may carry a signature. Version 3 carries the hash of the caller's key. Version 4 carries the parents. Version 5 may carry a
  // signature of form 2.
  [unchanged, unchanged, unchanged, unchanged],
);
/** Signs an unfinished invocation of a release that did not sign invocations. Version 2: the signature has form 2. */
export const ReactorInvocationSigned = defineEvent(
  'ReactorInvocationSigned',
  z.object({ ...identity, signature: requiredSignature }),
  [unchanged],
);

/** A runner has claimed the invocation; no other runner can claim it. After the deadline this runner cannot record an outcome any more. */
export const ReactorStarted = defineEvent(
  'ReactorStarted',
  z.object({ ...identity, runner_id: z.string(), deadline: moment }),
);

/**
 * Written by releases that did not seal these tokens with the result. They are not signed, so no
 * decision uses them.
 */
const seenTokenIds = z.array(z.string()).max(maxSeenTokens).optional();

/**
 * The sealed value is an `OutcomeContent`, sealed under the field `outcome_with_tokens`. Absent in an outcome of an
 * older release, which sealed the result or the problem alone, under the field `outcome`.
 */
const sealedWithTokens = z.literal(true).optional();

/** Sealed `RunConsole`, under a key that ends an hour after the run. Absent when the code printed nothing. */
const printed = sealedValue.optional();

/**
 * When the first cvc that was shown to the code expires: the outcome is not kept longer. Absent when no cvc was shown. The sealed value
 * decides.
 */
const cvcEndsAt = moment.optional();

/** `result` is sealed and contains the body of the answer to a synchronous caller. */
export const ReactorSucceeded = defineEvent(
  'ReactorSucceeded',
  z.object({
    ...identity,
    mode: z.enum(['sync', 'async']),
    result: sealedValue,
    seen_token_ids: seenTokenIds,
    cvc_ends_at: cvcEndsAt,
    sealed_with_tokens: sealedWithTokens,
    console: printed,
  }),
  // Version 2 adds the tokens that the code saw, and when the first of their cvcs expires. Version 3 seals them. Version 4 may carry
  // what the code printed.
  [unchanged, unchanged, unchanged],
);

export const ReactorFailed = defineEvent(
  'ReactorFailed',
  z.object({
    ...identity,
    mode: z.enum(['sync', 'async']),
    status: z.int(),
    /** The class of the failure, one of the vault's codes. */
    reason: z.string(),
    /** Sealed detail, errors and possibly a whole response: texts of the code may quote data. */
    problem: sealedValue,
    seen_token_ids: seenTokenIds,
    cvc_ends_at: cvcEndsAt,
    sealed_with_tokens: sealedWithTokens,
    console: printed,
  }),
  // Version 2 adds the tokens that the code saw, and when the first of their cvcs expires. Version 3 seals them. Version 4 may carry
  // what the code printed.
  [unchanged, unchanged, unchanged],
);

const attempt = z.int().min(1);
export const WebhookDelivered = defineEvent('WebhookDelivered', z.object({ ...identity, attempt }));
export const WebhookAttemptFailed = defineEvent(
  'WebhookAttemptFailed',
  z.object({ ...identity, attempt, reason: z.string(), next_at: moment }),
);
/** The last delivery attempt failed, so no further attempt follows. */
export const WebhookGivenUp = defineEvent(
  'WebhookGivenUp',
  z.object({ ...identity, attempt, reason: z.string() }),
);

/** A caller asked to deliver the result now: before the next attempt is due, or after the last attempt failed. */
export const WebhookRedeliveryRequested = defineEvent('WebhookRedeliveryRequested', z.object(identity));

export const invocationEvents = [
  ReactorInvoked,
  ReactorInvocationSigned,
  ReactorStarted,
  ReactorSucceeded,
  ReactorFailed,
  WebhookDelivered,
  WebhookAttemptFailed,
  WebhookGivenUp,
  WebhookRedeliveryRequested,
] as const;

/** The content of a sealed `problem`. `custom`: the code chose the whole response. A type alias, so that it is accepted as JSON. */
export type ReactorProblem = {
  readonly detail: string;
  readonly errors: FieldErrors;
  readonly custom?: { readonly headers: Readonly<Record<string, string>>; readonly body?: Json };
};

export type InvocationField = 'args' | 'callback_url' | 'parents' | 'outcome' | 'outcome_with_tokens';

export const invocationEntity = (invocationId: string): string => `invocation:${invocationId}`;

/**
 * The AAD of the lines that the code of a run printed. The lines are an entity of their own: the keys of an invocation are destroyed when
 * its result is delivered.
 */
export const runConsolePlace = (tenantId: string, invocationId: string) => ({
  tenantId,
  entity: `run-console:${invocationId}`,
  field: 'console',
});

/** The AAD of a sealed field of an invocation. Each field has a key of its own, because their lifetimes differ. */
export const invocationPlace = (tenantId: string, invocationId: string, field: InvocationField) => ({
  tenantId,
  entity: invocationEntity(invocationId),
  field,
});
