import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino';

/**
 * The only fields a log line can have. An allow-list, because a deny-list forgets: no body, no header, no query string
 * and no error message can reach a log, whatever an author passes.
 */
const allowed = [
  'service', 'trace_id', 'tenant_id', 'actor_id', 'operation', 'method', 'path', 'status', 'duration_ms', 'code',
  'error_name', 'error_code', 'stack', 'projection', 'event_id', 'position', 'count', 'port', 'address', 'pid',
  'signal', 'version', 'attempt', 'stream', 'task', 'outcome', 'reason', 'invocation_id', 'reactor_id',
] as const; // prettier-ignore
export type LogField = (typeof allowed)[number];
export type LogFields = { readonly [Field in LogField]?: string | number | boolean | undefined };

/** Messages are constant text: what varies goes into fields. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** Name, code and stack frames of an error. Its message is left out: a database's holds row values. */
export function errorFields(error: unknown): LogFields {
  if (!(error instanceof Error)) return { error_name: typeof error };
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  const code: unknown = (error as { code?: unknown }).code;
  return {
    error_name: error.name === 'Error' ? error.constructor.name : error.name,
    error_code: typeof code === 'string' ? code.slice(0, 60) : undefined,
    stack: frames.slice(0, 12).join('\n'),
  };
}

function pick(fields: LogFields | undefined): Record<string, string | number | boolean> {
  const picked: Record<string, string | number | boolean> = {};
  if (!fields) return picked;
  for (const name of allowed) {
    const value = fields[name];
    if (value !== undefined) picked[name] = value;
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
    debug: (message, fields) => lines.debug(pick(fields), message),
    info: (message, fields) => lines.info(pick(fields), message),
    warn: (message, fields) => lines.warn(pick(fields), message),
    error: (message, fields) => lines.error(pick(fields), message),
  };
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
