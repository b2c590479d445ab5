import type { ConsoleLine } from '@token-vault/contracts';
import type { SandboxLimits } from './limits.ts';
import type { GuestConsole, PlainOutcomeKind } from './outcome.ts';

/**
 * The messages between the pool and a child over a socket: one JSON object a line, and after a line of the child
 * maybe a body (frames.ts). Messages of a child are validated field by field, because an attacker who has left an
 * isolate would control the child.
 */
export type ToChild =
  | { readonly type: 'init'; readonly bundle: ChildBundle; readonly limits: SandboxLimits }
  | ({ readonly type: 'run' } & ChildRun)
  | {
      readonly type: 'answer';
      readonly run: number;
      readonly call: number;
      readonly ok: boolean;
      readonly payload: string;
    };

export interface ChildRun {
  readonly run: number;
  /** `check` evaluates the module and looks for the exported function without calling it. */
  readonly purpose: 'run' | 'check';
  readonly code: string;
  /** JSON text of `{args, bodyText, configuration, hasSvc}`. */
  readonly input: string;
  readonly timeoutMs: number;
}

export interface ChildBundle {
  readonly core: string;
  readonly modules: Readonly<Record<string, GuestModule>>;
}

export interface GuestModule {
  readonly source: string;
  /** Modules that this one requires while it loads. */
  readonly needs: readonly string[];
  /** Words in the code that indicate that the module will be needed. */
  readonly words: readonly string[];
}

export type FromChild =
  | { readonly type: 'ready' }
  | {
      readonly type: 'call';
      readonly run: number;
      readonly call: number;
      readonly method: string;
      /** For a request: its head as JSON. Empty for a method of `req.svc`. */
      readonly payload: string;
      /** For a request: its body. For a method of `req.svc`: its arguments as JSON. */
      readonly body?: Buffer;
    }
  | { readonly type: 'abort'; readonly run: number; readonly call: number }
  /** After this message the child is free for another run. */
  | {
      readonly type: 'outcome';
      readonly run: number;
      readonly outcome: ChildOutcome;
    };

/** Guest values inside (`text`) are still JSON text here: the pool checks them before it uses them. */
export type ChildOutcome = { readonly console: GuestConsole } & (
  | { readonly kind: 'succeeded' | 'failed'; readonly text: string }
  | {
      readonly kind: 'compile-error';
      readonly message: string;
      readonly line?: number;
      readonly column?: number;
    }
  | { readonly kind: 'limit-exceeded'; readonly limit: string }
  | { readonly kind: PlainOutcomeKind | 'compiled' }
);

export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

const plainKinds = new Set<string>([
  'timed-out',
  'out-of-memory',
  'output-too-large',
  'not-serialisable',
  'never-settled',
  'killed',
  'compiled',
]);
const levels = new Set<string>(['debug', 'error', 'info', 'log', 'warn']);

/** A message without its body, and the number of bytes of the body that follows. */
export interface Envelope {
  readonly bytes: number;
  readonly complete: (body: Buffer) => FromChild;
}

const whole = (message: FromChild): Envelope => ({ bytes: 0, complete: () => message });

const fieldsOfMessages = ['type', 'run', 'call', 'method', 'payload', 'hasBody', 'bytes', 'outcome'] as const;
const fieldsOfOutcomes = ['kind', 'console', 'limit', 'message', 'line', 'column'] as const;

/** @throws {ProtocolError} when the line is not an envelope that a sound child sends */
export function decodeFromChild(line: string, limits: SandboxLimits): Envelope {
  const message = record(parse(line), ...fieldsOfMessages);
  switch (message['type']) {
    case 'ready':
      return whole({ type: 'ready' });
    case 'call':
      return decodeCall(message, limits);
    case 'abort':
      return whole({ type: 'abort', run: count(message['run']), call: count(message['call']) });
    case 'outcome':
      return decodeOutcomeMessage(message, limits);
    default:
      throw new ProtocolError('unknown message type');
  }
}

type Fields = Partial<Record<string, unknown>>;

function decodeCall(message: Fields, limits: SandboxLimits): Envelope {
  const method = text(message['method'], 100);
  const most = method === 'fetch' ? limits.requestBytes : limits.argsBytes;
  const call = {
    type: 'call',
    run: count(message['run']),
    call: count(message['call']),
    method,
    payload: text(message['payload'], limits.requestHeadChars),
  } as const;
  const complete = (body: Buffer) => (message['hasBody'] === true ? { ...call, body } : call);
  return { bytes: count(message['bytes'], most), complete };
}

function decodeOutcomeMessage(message: Fields, limits: SandboxLimits): Envelope {
  const run = count(message['run']);
  const value = record(message['outcome'], ...fieldsOfOutcomes);
  const { kind } = value;
  if (kind !== 'succeeded' && kind !== 'failed')
    return whole({ type: 'outcome', run, outcome: decodeOutcome(value, limits) });
  const console = decodeConsole(value['console'], limits);
  return {
    bytes: count(message['bytes'], limits.resultBytes),
    complete: (body) => ({
      type: 'outcome',
      run,
      outcome: { kind, console, text: body.toString('utf8') },
    }),
  };
}

function decodeOutcome(value: Fields, limits: SandboxLimits): ChildOutcome {
  const console = decodeConsole(value['console'], limits);
  const kind = text(value['kind'], 40);
  if (kind === 'limit-exceeded') return { kind, console, limit: text(value['limit'], 100) };
  if (kind === 'compile-error') {
    return {
      kind,
      console,
      message: text(value['message'], 2_000),
      ...(value['line'] === undefined ? {} : { line: count(value['line']) }),
      ...(value['column'] === undefined ? {} : { column: count(value['column']) }),
    };
  }
  if (plainKinds.has(kind)) return { kind: kind as PlainOutcomeKind | 'compiled', console };
  throw new ProtocolError('unknown outcome');
}

function decodeConsole(value: unknown, limits: SandboxLimits): GuestConsole {
  const { lines, truncated } = record(value, 'lines', 'truncated');
  if (!Array.isArray(lines) || lines.length > limits.consoleLines) throw new ProtocolError('console lines');
  let left = limits.consoleBytes;
  const decoded = lines.map((entry: unknown): ConsoleLine => {
    const { level, text: content } = record(entry, 'level', 'text');
    if (typeof level !== 'string' || !levels.has(level)) throw new ProtocolError('console level');
    const line = text(content, left);
    left -= line.length;
    return { level: level as ConsoleLine['level'], text: line };
  });
  return { lines: decoded, truncated: truncated === true };
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new ProtocolError('not JSON');
  }
}

/** An object without other fields: unknown fields would be parsed for nothing. */
function record<Known extends string>(
  value: unknown,
  ...known: readonly Known[]
): Partial<Record<Known, unknown>> {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw new ProtocolError('not an object');
  if (Object.keys(value).some((name) => !known.some((each) => each === name)))
    throw new ProtocolError('unknown field');
  return value;
}

function count(value: unknown, most = Number.MAX_SAFE_INTEGER): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > most)
    throw new ProtocolError('not a count');
  return value as number;
}

function text(value: unknown, maxLength: number): string {
  if (typeof value !== 'string' || value.length > maxLength)
    throw new ProtocolError('not a text within bounds');
  return value;
}

/** Cuts a byte stream into lines. A line longer than `maxBytes` is refused before it is collected. */
export function createLineReader(maxBytes: number, onLine: (line: string) => void): (chunk: Buffer) => void {
  let parts: Buffer[] = [];
  let held = 0;
  return (chunk) => {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line =
        parts.length === 0 ? rest.subarray(0, end) : Buffer.concat([...parts, rest.subarray(0, end)]);
      parts = [];
      held = 0;
      rest = rest.subarray(end + 1);
      onLine(line.toString('utf8'));
    }
    if (rest.length === 0) return;
    held += rest.length;
    if (held > maxBytes) throw new ProtocolError('line too long');
    parts.push(rest);
  };
}
