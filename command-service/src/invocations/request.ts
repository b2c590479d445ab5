import {
  EnterpriseRequiredError,
  ForbiddenError,
  ValidationError,
  type BodyOf,
  type Operations,
} from '@token-vault/contracts';
import { secret, type Secret } from '@token-vault/crypto';
import { findTokenReferences, type TokenReferences } from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { asRefusal } from '../tokens/expression-errors.ts';

export type ReactBody = Partial<BodyOf<Operations['react']>>;

/** A request to react, with the checks that need no stored data done. */
export interface ReactRequest {
  readonly args: NonNullable<ReactBody['args']>;
  readonly references: TokenReferences;
  readonly callbackUrl: Secret<string> | undefined;
  readonly timeoutMs: number;
}

/** rules.md §3 and interface.md, Limits. */
const maxArgsBytes = 1_048_576;
const maxTokens = 100;
const defaultTimeoutMs = 10_000;

function checkCallbackUrl(given: Secret<string>, allowsPlainHttp: boolean): void {
  const url = URL.parse(given.expose());
  const isSecure = url?.protocol === 'https:';
  if (url === null || !(isSecure || (allowsPlainHttp && url.protocol === 'http:')))
    throw ValidationError.of('callback_url', 'must be an https URL');
  if (url.username !== '' || url.password !== '')
    throw ValidationError.of('callback_url', 'must not hold a user name or password');
}

function referencesOf(args: ReactRequest['args']): TokenReferences {
  try {
    return findTokenReferences(args.expose());
  } catch (error) {
    throw asRefusal(error);
  }
}

/** The inner run would be the application's own, and know nothing of the session that began the outer one. @throws ForbiddenError */
function refuseInnerOfConsole({ principal: { shownAtMost, actor } }: RequestContext): void {
  if (shownAtMost !== undefined && actor.kind === 'application')
    throw new ForbiddenError('Code that a session of the console runs cannot invoke reactors.');
}

/** @throws ValidationError, EnterpriseRequiredError */
export function readReactRequest(
  body: ReactBody,
  context: RequestContext,
  allowsPlainHttp: boolean,
): ReactRequest {
  refuseInnerOfConsole(context);
  const args = body.args ?? secret({});
  // Both spellings are in use (rules.md §10).
  const callbackUrl = body.callback_url ?? body.callbackUrl;
  const timeoutMs = body.timeout_ms ?? body.timeoutMs;
  const isEnterprise = context.principal.tenant.plan === 'enterprise';
  if (callbackUrl !== undefined && !isEnterprise) throw new EnterpriseRequiredError('callback_url');
  if (timeoutMs !== undefined && !isEnterprise) throw new EnterpriseRequiredError('timeout_ms');
  if (timeoutMs !== undefined && callbackUrl === undefined)
    throw ValidationError.of('timeout_ms', 'is only supported for asynchronous requests');
  if (callbackUrl !== undefined) checkCallbackUrl(callbackUrl, allowsPlainHttp);
  if (Buffer.byteLength(JSON.stringify(args.expose())) > maxArgsBytes)
    throw ValidationError.of('args', 'must be at most 1 MiB as JSON');
  const references = referencesOf(args);
  if (references.tokens.size > maxTokens)
    throw ValidationError.of('args', `must not name more than ${maxTokens} tokens`);
  return { args, references, callbackUrl, timeoutMs: timeoutMs ?? defaultTimeoutMs };
}
