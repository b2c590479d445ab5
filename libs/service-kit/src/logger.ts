import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino';

/**
 * The only fields a log line can have. An allow-list, because a deny-list forgets: no body, no header, no query string
 * and no error message can reach a log, whatever an author passes.
 */
const allowed = [
  'service', 'trace_id', 'tenant_id', 'actor_id', 'operation', 'method', 'path', 'status', 'duration_ms', 'code',
  'error_name', 'error_code', 'stack', 'projection', 'event_id', 'position', 'count', 'port', 'address', 'pid',
  'signal', 'version', 'attempt', 'stream', 'task', 'outcome', 'reason', 'retryMs', 'eventId', 'component',
  'postmaster',
  'processes',
  'invocation_id', 'reactor_id',
] as const; // prettier-ignore
export type LogField = (typeof allowed)[number];
export type LogFields = { readonly [Field in LogField]?: string | number | boolean | undefined };

type Log = (fields: object, message: string) => void;

/** Messages are constant text: what varies goes into fields, of which only the allowed ones are written. */
export interface Logger {
  readonly debug: Log;
  readonly info: Log;
  readonly warn: Log;
  readonly error: Log;
}

/** What follows the message in a stack: a message of several lines may look like frames itself. */
function framesOf({ stack = '', message }: Error): string[] {
  const start = stack.indexOf(message);
  // The message was changed after the stack was made: where it ends is not known.
  if (start < 0) return [];
  const lines = stack.slice(start + message.length).split('\n');
  return lines.filter((line) => /^\s+at /.test(line));
}

/** Name, code and stack frames of an error. Its message is left out: a database's holds row values. */
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
    warn: (fields, message) => lines.warn(pick(fields), message),
    error: (fields, message) => lines.error(pick(fields), message),
  };
}

export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
};
