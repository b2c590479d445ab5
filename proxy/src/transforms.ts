import type { Holder } from '@token-vault/batching';
import {
  DomainError,
  isReservedHeader,
  ValidationError,
  type Json,
  type JsonObject,
  type ParentRun,
  type SeenToken,
  type TokenIdentity,
} from '@token-vault/contracts';
import type { EgressAnswer } from '@token-vault/egress';
import type { AnswerStream, RequestContext } from '@token-vault/operations';
import { Readable } from 'node:stream';
import { kindOf } from './body.ts';
import { urlBelow, type ConfiguredProxy } from './configured.ts';
import { isHeaderName, isHeaderValue, staysBehind } from './headers.ts';
import { largeAnswers } from './large-answers.ts';
import type { CodeArguments, Outgoing } from './outgoing.ts';

/** The tokens that code was shown. `isComplete`: false when there are others, which are not named. */
export interface Seen {
  readonly tokens: readonly SeenToken[];
  readonly isComplete: boolean;
  /** RFC 3339. The end of the first cvc among them. */
  readonly cvcEndsAt?: string | undefined;
}

/** A run of a transform. */
export interface CodeRun {
  readonly proxy: ConfiguredProxy;
  /** Which of the transforms it is. */
  readonly part: 'request' | 'response';
  readonly code: string;
  readonly args: CodeArguments;
  /** The exchange that the code is part of. */
  readonly exchangeId: string;
  readonly signal: AbortSignal;
  /** Decides again whether data may leave, before each request of the code. @throws DomainError */
  readonly requireSendable: () => Promise<void>;
  /** Decides again whether the code may change something, before each change. @throws DomainError */
  readonly requireActing: () => Promise<void>;
  /** Uses tokens that expressions of the code name for the caller. Gives them as used by its rights. @throws DomainError */
  readonly useNamed: (named: readonly string[]) => Promise<readonly SeenToken[]>;
  /** Evaluates expressions of the code for the caller: errors count as its misses. @throws RateLimitedError */
  readonly guess: <Result>(
    isMiss: (error: unknown) => boolean,
    work: () => Promise<Result>,
  ) => Promise<Result>;
  /** Called with all tokens that the code was shown so far, before it is shown more. */
  readonly onSeen: (seen: Seen) => void;
  /** Called with the tokens that the code has deleted. */
  readonly onDeleted: (tokens: readonly TokenIdentity[]) => void;
  /** The exchange as a run, with all that its code was shown up to now. */
  readonly parents: () => readonly ParentRun[];
}

/** The output of the code. `tokens`: its output `tokenize` as tokens. */
export interface CodeResult {
  readonly raw?: Json | undefined;
  readonly tokens?: Json | undefined;
}

/** Runs code in the sandbox of reactors, in the name of the caller. @throws DomainError, also an error that the code threw */
export type RunCode = (run: CodeRun, context: RequestContext) => Promise<CodeResult>;

/** rules.md §3: arguments and results of code. */
const mostBytes = 1024 * 1024;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const objectOf = (value: Json | undefined): JsonObject =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};

type Pairs = readonly (readonly [name: string, value: string])[];
const valueOf = (headers: Pairs, name: string): string =>
  headers.find(([each]) => each.toLowerCase() === name)?.[1] ?? '';

/** The arguments with the body: JSON apart, other text as text; null for bytes, which code does not see. */
function withBody(args: JsonObject, bytes: Uint8Array, headers: Pairs): CodeArguments {
  const kind = kindOf(valueOf(headers, 'content-type'));
  const isPlain = /^(identity)?$/i.test(valueOf(headers, 'content-encoding'));
  const text = bytes.length === 0 || !isPlain || kind === undefined ? null : textOf(bytes);
  if (kind === 'json' && text !== null) return { args: { ...args, body: null }, bodyText: text };
  return { args: { ...args, body: text } };
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}

function headersFor(headers: Pairs): JsonObject {
  const found: JsonObject = {};
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    const before = Object.hasOwn(found, key) ? found[key] : undefined;
    Object.defineProperty(found, key, {
      value: typeof before === 'string' ? `${before}, ${value}` : value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return found;
}

const faulty = (field: string, what: string): DomainError =>
  new DomainError('reactor_failed', 'The output of a transform of the proxy cannot be sent.', {
    errors: { [field]: [what] },
  });

/** Headers as code gives them. @throws DomainError */
function headersFrom(given: Json, place: string): Pairs {
  return Object.entries(objectOf(given)).flatMap(([name, value]) => {
    if (value === null || staysBehind(name)) return [];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (!isHeaderName(name) || !isHeaderValue(text))
      throw faulty(`${place}.headers`, 'holds a name or a value that no header may have');
    return [[name, text] as const];
  });
}

interface Message {
  readonly headers: Pairs;
  readonly body: Uint8Array;
}

/** The message with the headers and the body that the code gave. A part that the code did not give stays. */
function changed(message: Message, given: JsonObject, place: string): Message {
  const headers = given.headers === undefined ? message.headers : headersFrom(given.headers, place);
  if (given.body === undefined) return { ...message, headers };
  const { body: value } = given;
  const body = Buffer.from(
    typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value),
    'utf8',
  );
  const plain = headers.filter(([name]) => !/^(content-(encoding|md5|digest)|digest|etag)$/i.test(name));
  const isTyped = typeof value === 'string' || valueOf(plain, 'content-type') !== '' || value === null;
  return { headers: isTyped ? plain : [...plain, ['content-type', 'application/json']], body };
}

/** Where a request is read before a transform. */
type Target = Pick<ConfiguredProxy, 'destination'>;

function requireSmall(bytes: number, what: string): void {
  if (bytes > mostBytes)
    throw new DomainError(
      'payload_too_large',
      `${what} is larger than 1 MiB, the most that a transform takes.`,
    );
}

/**
 * The request as code gets it: `path` is below the base path. The size of the whole as JSON depends on the data in it, so call this where
 * errors of expressions count as misses. @throws DomainError `payload_too_large`
 */
export function argumentsOf(outgoing: Outgoing, { destination }: Target): CodeArguments {
  requireSmall(outgoing.body.length, 'The request');
  const url = new URL(outgoing.url);
  const base = new URL(destination).pathname.replace(/\/$/, '');
  const head = {
    method: outgoing.method,
    path: url.pathname.slice(base.length),
    query: url.search.slice(1),
    headers: headersFor(outgoing.headers),
  };
  const { args, bodyText } = withBody(head, outgoing.body, outgoing.headers);
  const bodyBytes = bodyText === undefined ? 0 : outgoing.body.length;
  requireSmall(Buffer.byteLength(JSON.stringify(args)) + bodyBytes, 'The request as JSON');
  return { args, bodyText };
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * The request as the output of code changes it. Code may return the properties of `argumentsOf`.
 */
export function changedRequest(outgoing: Outgoing, proxy: ConfiguredProxy, { raw }: CodeResult): Outgoing {
  const url = new URL(outgoing.url);
  const given = objectOf(raw);
  const { method = outgoing.method, path, query } = given;
  if (typeof method !== 'string' || !methods.has(method)) throw faulty('request.method', 'is not a method');
  const next = path === undefined ? url : urlFrom(proxy, path);
  if (query !== undefined && typeof query !== 'string') throw faulty('request.query', 'must be text');
  next.search = query ?? url.search;
  const message = changed(outgoing, given, 'request');
  return { ...message, method, url: next.href };
}

function urlFrom(proxy: ConfiguredProxy, path: Json): URL {
  try {
    return urlBelow(proxy, typeof path === 'string' ? path : '{{');
  } catch (error) {
    if (error instanceof ValidationError) throw faulty('request.path', 'is not below the base path');
    throw error;
  }
}

/** The answer as code gets it, and the properties that code may return: `status`, `headers`, `body`; tokens take the place of the body. */
export async function transformedAnswer(
  answer: EgressAnswer,
  holder: Holder,
  run: (args: CodeArguments) => Promise<CodeResult>,
): Promise<AnswerStream> {
  const { status, headers } = answer;
  return largeAnswers.read(
    { body: answer.body, mostBytes, holder },
    (bytes) => withBody({ status, headers: headersFor(headers) }, bytes, headers),
    async (args, bytes) => changedAnswer({ status, headers, body: bytes }, await run(args)),
  );
}

/** @throws DomainError when the code gave what no answer may have */
function changedAnswer(
  answer: Message & Pick<EgressAnswer, 'status'>,
  { raw, tokens }: CodeResult,
): AnswerStream {
  const given = objectOf(raw);
  const { status = answer.status } = given;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599)
    throw faulty('response.status', 'must be a status from 200 to 599');
  const message = changed(answer, tokens === undefined ? given : { ...given, body: tokens }, 'response');
  const headers = message.headers.filter(
    ([name]) => !/^(content-length|transfer-encoding)$/i.test(name) && !isReservedHeader(name),
  );
  const isJson = tokens !== undefined;
  const typed = isJson ? headers.filter(([name]) => name.toLowerCase() !== 'content-type') : headers;
  return {
    status,
    headers: isJson ? [...typed, ['content-type', 'application/json']] : typed,
    body: Readable.from([message.body], { objectMode: false }),
  };
}
