import {
  allowedCustomHeaders,
  customHeaderBytes,
  isCustomStatus,
  maxCustomHeaderBytes,
  type Json,
  type JsonObject,
} from '@token-vault/contracts';
import { parseChecked } from './checked-json.ts';
import type { SandboxLimits } from './limits.ts';
import type { ChildOutcome } from './messages.ts';
import { runtimeErrorDetail } from './outcome.ts';
import type { CompileOutcome, GuestFailure, RunOutcome } from './outcome.ts';

const brandedStatuses = new Set([400, 401, 402, 403, 429, 500]);

/** Turns the report of a child into an outcome and trusts none of it: the guest's JSON is parsed and checked here. */
export function readRunOutcome(outcome: ChildOutcome, limits: SandboxLimits): RunOutcome {
  const { console } = outcome;
  switch (outcome.kind) {
    case 'succeeded': {
      const value = checked(outcome.text, limits);
      if (value === undefined) return { kind: 'not-serialisable', console };
      const { raw, tokenize } = value;
      return {
        kind: 'succeeded',
        console,
        result: { ...(raw === undefined ? {} : { raw }), ...(tokenize === undefined ? {} : { tokenize }) },
      };
    }
    case 'failed':
      return { kind: 'failed', console, ...readFailure(checked(outcome.text, limits)) };
    case 'compile-error':
      return { ...outcome, console };
    case 'limit-exceeded':
      return { kind: 'limit-exceeded', limit: outcome.limit, console };
    case 'compiled':
      return { kind: 'killed', console };
    default:
      return { kind: outcome.kind, console };
  }
}

export function readCompileOutcome(outcome: ChildOutcome): CompileOutcome {
  switch (outcome.kind) {
    case 'compiled':
      return { kind: 'compiled' };
    case 'compile-error': {
      const { console: _, ...problem } = outcome;
      return problem;
    }
    case 'killed':
    case 'overloaded':
      return { kind: 'unavailable' };
    default:
      return {
        kind: 'compile-error',
        message: 'The code did not load within the time and memory it may take',
      };
  }
}

function checked(text: string, limits: SandboxLimits): JsonObject | undefined {
  try {
    const value = parseChecked(text, { depth: limits.jsonDepth, nodes: limits.jsonNodes });
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const unreadable: GuestFailure = {
  status: 500,
  detail: runtimeErrorDetail,
  errors: { error: ['The reactor failed'] },
};

function readFailure(value: JsonObject | undefined): GuestFailure {
  const { status, detail, errors, custom } = value ?? {};
  // A status that is no number arrives as null.
  if (custom !== undefined) return readCustom(Number(status ?? NaN), asObject(custom));
  if (typeof status !== 'number' || typeof detail !== 'string' || !isErrors(errors)) return unreadable;
  return brandedStatuses.has(status) ? { status, detail, errors } : unreadable;
}

/**
 * A response that the code chose itself, when it keeps rules.md §10. Otherwise a failure that names the broken rule.
 */
function readCustom(status: number, { headers, body }: JsonObject): GuestFailure {
  if (!isCustomStatus(status)) return refused('CustomHttpResponseError needs a status from 200 to 599');
  const allowed = allowedCustomHeaders(asObject(headers));
  if (customHeaderBytes(allowed) > maxCustomHeaderBytes)
    return refused('CustomHttpResponseError may set at most 16 KB of headers');
  return {
    status,
    detail: 'Custom HTTP Response',
    errors: {},
    custom: { headers: allowed, ...(body === undefined ? {} : { body }) },
  };
}

const refused = (message: string): GuestFailure => ({ ...unreadable, errors: { error: [message] } });

function isErrors(value: Json | undefined): value is Record<string, string[]> {
  return Object.values(asObject(value)).every(
    (list) => Array.isArray(list) && list.every((each) => typeof each === 'string'),
  );
}

function asObject(value: Json | undefined): JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};
}
