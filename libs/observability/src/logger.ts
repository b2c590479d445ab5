import { mergeWarnings } from './merged-warnings.ts';
import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino';

/**
 * The only fields that a log line can have. An allow-list, because a deny-list may be incomplete: no body, header, query string or error
 * message can reach a log, whatever the calling code passes.
 */
const allowed = [
  'service', 'trace_id', 'tenant_id', 'actor_id', 'operation', 'method', 'path', 'status', 'duration_ms', 'code',
  'error_name', 'error_code', 'stack', 'projection', 'event_id', 'position', 'count', 'port', 'address', 'pid',
  'signal', 'version', 'attempt', 'stream', 'task', 'outcome', 'reason', 'retryMs', 'eventId', 'component',
  'postmaster',
  'processes',
  'invocation_id', 'reactor_id',
  'free_bytes', 'size_bytes', 'reserve_bytes',
] as const; // prettier-ignore
type LogField = (typeof allowed)[number];
export type LogFields = { readonly [Field in LogField]?: string | number | boolean | undefined };

type Log = (fields: object, message: string) => void;

/** Messages are constant text. Variable values go into fields, of which only the allowed ones are written. */
export interface Logger {
  readonly debug: Log;
  readonly info: Log;
  readonly warn: Log;
  readonly error: Log;
}

/** The stack after the message: lines of the message itself could look like frames. */
function framesOf({ stack = '', message }: Error): string[] {
  const start = stack.indexOf(message);
  // The message was changed after the stack was made: its end in the stack is not known.
  if (start < 0) return [];
  const lines = stack.slice(start + message.length).split('\n');
  return lines.filter((line) => /^\s+at /.test(line));
}

/** Name, code and stack frames of an error. The message is left out: messages of the database contain row values. */
export function errorFields(error: unknown): LogFields {
  if (!(error instanceof Error)) return { error_name: typeof error };
  const code: unknown = (error as { code?: unknown }).code;
  return {
    error_name: error.name === 'Error' ? error.constructor.name : error.name,
    error_code: typeof code === 'string' ? code.slice(0, 60) : undefined,
    stack: framesOf(error).slice(0, 12).join('\n'),
  };
}

function pick(fields: object): Record<string, string | number | boolean> {
  const given = fields as Readonly<Record<string, unknown>>;
  const picked: Record<string, string | number | boolean> = {};
  for (const name of allowed) {
    const value = given[name];
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      picked[name] = value;
  }
  return picked;
}

export interface LoggerOptions {
  readonly service: string;
  readonly level?: string;
  readonly destination?: DestinationStream;
}

export function createLogger(options: LoggerOptions): Logger {
  const settings = { level: options.level ?? 'info', base: { service: options.service } };
  const lines: PinoLogger = options.destination ? pino(settings, options.destination) : pino(settings);
  return {
    debug: (fields, message) => lines.debug(pick(fields), message),
    info: (fields, message) => lines.info(pick(fields), message),
    warn: mergeWarnings((fields, message) => lines.warn(pick(fields), message)),
    error: (fields, message) => lines.error(pick(fields), message),
  };
}

export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
};
