import { BaseError, host, NativePromise, parse, stringify } from './bridge.ts';

interface Waiting {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}

const waiting = new Map<string, Waiting>();
let lastCall = 0;

/** An error reported by the host or a service. `status` and `problem` are set when the service gave them. */
export class ServiceError extends BaseError {
  override name = 'ServiceError';
  declare readonly code?: string;
  declare readonly status?: number;
  declare readonly problem?: unknown;
}

export function call(method: string, input: unknown, signal?: AbortSignal): Promise<unknown> {
  const id = `${++lastCall}`;
  return new NativePromise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason as Error);
      return;
    }
    waiting.set(id, { resolve, reject });
    signal?.addEventListener('abort', () => {
      if (!waiting.delete(id)) return;
      host('abort', id);
      reject(signal.reason as Error);
    });
    host('call', id, stringify({ method, payload: stringify(input) ?? 'null' }));
  });
}

export function answer(id: string, text: string): void {
  const entry = waiting.get(id);
  if (!waiting.delete(id) || entry === undefined) return;
  const { ok, payload } = parse(text) as { ok: boolean; payload: string };
  if (ok) entry.resolve(parse(payload));
  else entry.reject(errorFrom(parse(payload)));
}

export function sync(operation: string, input: unknown): unknown {
  const { ok, value } = parse(host(operation, stringify(input)) ?? '{}') as { ok?: boolean; value?: unknown };
  if (ok) return value;
  throw errorFrom(value);
}

function errorFrom(value: unknown): Error {
  const { message, code, status, problem } = (value ?? {}) as Partial<ServiceError>;
  const error = status === undefined ? new BaseError(`${message}`) : new ServiceError(`${message}`);
  return Object.assign(
    error,
    code === undefined ? {} : { code },
    status === undefined ? {} : { status, problem },
  );
}
